"""Requests as rows of a batch: groups that share an image prefix, each with the questions that branch off it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from PIL.Image import Image
from torch import Tensor

from vfkit.images import content_hash
from vfkit.readout.conversation import ConversationError, Prompt, open_prompt, scored_prompt
from vfkit.readout.reader import Request
from vfkit.readout.tree import Row
from vfkit.sample import Sample


@dataclass
class Question:
    """One request's prompts and, once its group's row has grown, the nodes that they and their answers take in it.

    Args:
        index: place among the requests.
        open: the prompt without options; None without probes.
        context, open_context: nodes at which the prompts end.
        nodes: node of each candidate: the options, then the letters.
    """

    sample: Sample
    scored: Prompt
    open: Prompt | None = None
    index: int = 0
    context: int = 0
    open_context: int = 0
    nodes: list[int] = field(default_factory=list)

    @property
    def contexts(self) -> tuple[int, int]:
        """Nodes from which answers are generated: the open prompt's, and the scored one's."""
        return self.open_context, self.context

    @property
    def candidates(self) -> list[tuple[int, ...]]:
        """Scored tokens of each option, end of turn included, then of each letter."""
        return [each.text + each.end for each in self.scored.answers] + [each.text for each in self.scored.letters]

    @property
    def n_tokens(self) -> int:
        """Tokens that the question adds to its row."""
        return len(self.scored.tail) + sum(map(len, self.candidates)) + (len(self.open.tail) if self.open else 0)

    def grow(self, row: Row, closing: Sequence[int]) -> None:
        """Append the prompts and every answer to them; `closing` is what the processor writes after an image."""
        self.context = self.open_context = row.grow(0, [*closing, *self.scored.tail])
        if self.open and self.open.tail != self.scored.tail:
            self.open_context = row.grow(0, [*closing, *self.open.tail])
        fed = [answer.text + answer.end[:-1] for answer in self.scored.answers]  # nothing follows the last token
        fed += [letter.text[:-1] for letter in self.scored.letters]
        grown = {tokens: row.grow(self.context, tokens) for tokens in dict.fromkeys(fed)}  # equal options: exact ties
        self.nodes = [grown[tokens] for tokens in fed]

    def steps(self, row: Row) -> Iterator[tuple[int, int]]:
        """(place of the state that predicts it, token) for each token of every candidate, in order."""
        for node, tokens in zip(self.nodes, self.candidates, strict=True):
            yield from zip([row.last(self.context), *row.places(node)], tokens, strict=False)


@dataclass
class Group:
    """Questions that share an image prefix: one row of a batch.

    Args:
        n_prefix: tokens of the prefix, the images' among them; what the processor writes around images is left out.
    """

    images: tuple[Image | Tensor, ...]
    questions: list[Question]
    n_prefix: int
    row: Row = field(init=False, repr=False)

    @property
    def n_tokens(self) -> int:
        """Tokens of the row, by which batches are filled."""
        return self.n_prefix + sum(question.n_tokens for question in self.questions)

    def grow(self, ids: list[int], image_token: int) -> None:
        """Make the row: its prefix as the processor made it, then every prompt and every answer.

        Args:
            ids: the first question's prompt as the processor tokenised it, images widened.

        Raises:
            RuntimeError: its end is not that of the rendered prompt.
        """
        n_prefix = len(ids) - ids[::-1].index(image_token) if self.images else 0
        tail = self.questions[0].scored.asked
        closing = ids[n_prefix : len(ids) - len(tail)]  # what the processor itself adds after an image
        if tuple(ids[len(ids) - len(tail) :]) != tail:
            raise RuntimeError("the processor's tokens after the image are not those of the rendered prompt")
        self.row = Row(ids[:n_prefix])
        for question in self.questions:
            question.grow(self.row, closing)

    def apart(self) -> list["Group"]:
        """One group for each question."""
        return [replace(self, questions=[question]) for question in self.questions]


def grouped(
    vlm, requests: Sequence[Request], probes: bool, batch_tokens: int
) -> tuple[list[Group], dict[int, Exception]]:
    """Requests as groups, longest first, and the exceptions of those that cannot be read, by their index.

    Requests with the same image contents and the same words before them share a group as long as its row stays within
    `batch_tokens`; without images nothing is shared.
    """
    groups: list[Group] = []
    failed: dict[int, Exception] = {}
    latest: dict[tuple, Group] = {}  # the group that takes further questions on an image
    distinct = {id(image): image for _, images in requests for image in images}
    hashes = {key: content_hash(image) for key, image in distinct.items()}
    for index, (sample, images) in enumerate(requests):
        try:
            one = question(vlm, sample, images, probes, index)
            key = (one.scored.head, *(hashes[id(image)] for image in images)) if images else (index,)
            if key not in latest or latest[key].n_tokens + one.n_tokens > batch_tokens:
                latest[key] = Group(images, [], prefix_length(vlm, one, images))
                groups.append(latest[key])
            latest[key].questions.append(one)
        except Exception as error:
            failed[index] = error.with_traceback(None)
    return sorted(groups, key=lambda group: -group.n_tokens), failed


def question(vlm, sample: Sample, images: Sequence[Image], probes: bool = False, index: int = 0) -> Question:
    """A sample's prompts on images.

    Raises:
        ConversationError: the processor's chat template refuses them, or writes the image after other words in the open
            prompt than in the scored one, so that the two share no prefix.
        ContextError: prompt and longest answer are more than the model's context holds.
    """
    words = Sample("", (), sample.question, sample.options, hint=sample.hint, prompt=sample.prompt)
    processor = vlm.processor
    rendering = (processor, processor.chat_template, vlm.adapter.placeholder(processor), words, len(images), probes)
    asked = Question(sample, *_prompts(*rendering), index=index)
    _check_context(vlm, asked, images)
    return asked


@lru_cache(maxsize=512)  # a sample's many instances ask the words that its base asked before
def _prompts(
    processor, template: str | None, placeholder: str, words: Sample, n_images: int, probes: bool
) -> tuple[Prompt, Prompt | None]:
    scored = scored_prompt(words, n_images, processor, placeholder)
    open_ = open_prompt(words, n_images, processor, placeholder) if probes else None
    if open_ and n_images and open_.head != scored.head:
        raise ConversationError(
            "the chat template writes images after the text, so that the open prompt and the prompt with options share "
            "no image prefix; read this model without probes"
        )
    return scored, open_


class ContextError(ValueError):
    """A prompt that, with its longest answer, is longer than the model's context."""


def prefix_length(vlm, asked: Question, images: Sequence[Image]) -> int:
    """Tokens up to the end of the last image."""
    return asked.scored.n_head + sum(vlm.adapter.n_image_tokens(vlm.processor, [image.size for image in images]))


def _check_context(vlm, asked: Question, images: Sequence[Image]) -> None:
    limit = getattr(vlm.model.config.get_text_config(), "max_position_embeddings", None)
    prefix = prefix_length(vlm, asked, images)
    generated = vlm.max_new_tokens if asked.open else 0
    prompts = [(asked.scored.tail, max([generated, *map(len, asked.candidates)]))]
    prompts += [(asked.open.tail, generated)] if asked.open else []
    longest = max(prefix + len(tail) + answer for tail, answer in prompts)
    if limit and longest > limit:
        raise ContextError(
            f"the prompt with its longest answer takes {longest:,} tokens, the model's context holds {limit:,}"
        )
