"""Requests as rows of a batch: groups that share an image prefix, each with the questions that branch off it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from PIL.Image import Image
from torch import Tensor

from vfkit.images import numbered
from vfkit.prompts import Wording
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
        thinking: answers are generated from the prompts as they are, reasoning open; scores and the states of prompts
            are read after an empty reasoning.
        context, open_context: nodes at which the prompts end.
        sources: nodes from which answers are generated: to the open prompt, and to the scored one.
        nodes: node of each candidate: the options, then the letters.
    """

    sample: Sample
    scored: Prompt
    open: Prompt | None = None
    index: int = 0
    context: int = 0
    open_context: int = 0
    thinking: bool = False
    sources: tuple[int, int] = (0, 0)
    nodes: list[int] = field(default_factory=list)

    @property
    def candidates(self) -> list[tuple[int, ...]]:
        """Scored tokens of each option, end of turn included, then of each letter."""
        return [each.text + each.end for each in self.scored.answers] + [each.text for each in self.scored.letters]

    @property
    def n_tokens(self) -> int:
        """Tokens that the question adds to its row."""
        apart = self.open.tail if self.open and self.open.tail != self.scored.tail else ()
        asked = {self.open.asked, self.scored.asked} if self.open and self.thinking else ()
        return len(self.scored.tail) + sum(map(len, [*self.candidates, *asked])) + len(apart)

    @property
    def opened(self) -> dict[str, str]:
        """Tag of the reasoning that each prompt leaves open where answers are generated with it, else ""."""
        prompts = {"open": self.open or self.scored, "mcq": self.scored}
        return {name: prompt.opened if self.thinking else "" for name, prompt in prompts.items()}

    def grow(self, row: Row, closing: Sequence[int]) -> None:
        """Append the prompts and every answer to them; `closing` is what the processor writes after an image."""
        self.context = self.open_context = row.grow(0, [*closing, *self.scored.tail])
        if self.open and self.open.tail != self.scored.tail:
            self.open_context = row.grow(0, [*closing, *self.open.tail])
        self.sources = self.open_context, self.context
        if self.open and self.thinking:
            asked = {tokens: row.grow(0, [*closing, *tokens]) for tokens in {self.open.asked, self.scored.asked}}
            self.sources = asked[self.open.asked], asked[self.scored.asked]
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
        n_image: tokens of the images.
    """

    images: tuple[Image | Tensor, ...]
    questions: list[Question]
    n_prefix: int = 0
    n_image: int = 0
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


@dataclass(frozen=True)
class RowCost:
    """Cost of a row in multiply-adds, in units of one token through all layers' matrices.

    Args:
        image: an image token through the vision encoder.
        pair: one token that attends to another, in all layers.
    """

    image: float
    pair: float

    @classmethod
    def of(cls, vlm) -> "RowCost":
        """From the model's parameters and shape. A token's matrices cost one multiply-add per parameter, an image token
        is merged of about four patches, and a pair takes one for its score and one for its value in every channel."""
        backbone, config = vlm.adapter.backbone(vlm.model), vlm.model.config.get_text_config()
        text = backbone.language_model
        layers, vision = _n_params(text.layers), _n_params(backbone) - _n_params(text)
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        channels = config.num_attention_heads * head * config.num_hidden_layers
        return cls(4 * vision / layers, 2 * channels / layers)

    def __call__(self, group: "Group") -> float:
        return self.image * group.n_image + group.n_tokens + self.pair * group.n_tokens**2


def _n_params(module) -> int:
    return sum(each.numel() for each in module.parameters())


def grouped(
    vlm, requests: Sequence[Request], probes: bool, batch_tokens: int
) -> tuple[list[Group], dict[int, Exception]]:
    """Requests as groups, longest first, and the exceptions of those that cannot be read, by their index.

    Requests with the same image contents and the same words before them share a group; where many do, it is cut into as
    many rows as cost least (`RowCost`) and stay within `batch_tokens`. Without images nothing is shared.
    """
    groups: dict[tuple, Group] = {}
    failed: dict[int, Exception] = {}
    numbers = numbered(image for _, images in requests for image in images)
    for index, (sample, images) in enumerate(requests):
        try:
            one = question(vlm, sample, images, probes, index)
            key = (one.scored.head, *(numbers[id(image)] for image in images)) if images else (index,)
            if key not in groups:
                n_image = image_tokens(vlm, images)
                groups[key] = Group(images, [], one.scored.n_head + n_image, n_image)
            groups[key].questions.append(one)
        except Exception as error:
            failed[index] = error.with_traceback(None)
    cost = RowCost.of(vlm)
    rows = [row for group in groups.values() for row in cut(group, cost, batch_tokens)]
    return sorted(rows, key=lambda row: -row.n_tokens), failed


def cut(group: Group, cost: Callable[[Group], float], batch_tokens: int) -> list[Group]:
    """A group as the rows that cost least together.

    In one long row every question would attend past all others, masked; in many rows the image is encoded many times.
    Rows longer than `batch_tokens` are cut in any case, down to a single question.
    """
    best: tuple[float, float] = (math.inf, math.inf)
    rows = [group]
    n = len(group.questions)
    for size in sorted({math.ceil(n / n_rows) for n_rows in range(1, n + 1)}, reverse=True):
        starts = range(0, n, size)
        parts = [replace(group, questions=group.questions[start : start + size]) for start in starts]
        excess = max(0, max(part.n_tokens for part in parts) - batch_tokens)
        if (total := (excess, sum(map(cost, parts)))) < best:
            best, rows = total, parts
        elif not excess:  # costs only rise from here
            break
    return rows


def question(vlm, sample: Sample, images: Sequence[Image], probes: bool = False, index: int = 0) -> Question:
    """A sample's prompts on images.

    Raises:
        ConversationError: the processor's chat template refuses them, or writes the image after other words in the open
            prompt than in the scored one, so that the two share no prefix.
        ContextError: prompt and longest answer are more than the model's context holds.
    """
    words = Sample("", (), sample.question, sample.options, hint=sample.hint, prompt=sample.prompt)
    processor = vlm.processor
    template, placeholder = processor.chat_template, vlm.adapter.placeholder(processor)
    rendered = _prompts(processor, template, placeholder, words, len(images), probes, vlm.wording)
    asked = Question(sample, *rendered, index=index, thinking=vlm.thinking)
    _check_context(vlm, asked, images)
    return asked


@lru_cache(maxsize=512)  # a sample's many instances ask the words that its base asked before
def _prompts(
    processor, template: str | None, placeholder: str, words: Sample, n_images: int, probes: bool, wording: Wording
) -> tuple[Prompt, Prompt | None]:
    scored = scored_prompt(words, n_images, processor, placeholder, wording)
    open_ = open_prompt(words, n_images, processor, placeholder, wording) if probes else None
    if open_ and n_images and open_.head != scored.head:
        raise ConversationError(
            "the chat template writes images after the text, so that the open prompt and the prompt with options share "
            "no image prefix; read this model without probes"
        )
    return scored, open_


class ContextError(ValueError):
    """A prompt that, with its longest answer, is longer than the model's context."""


def image_tokens(vlm, images: Sequence[Image]) -> int:
    """Tokens of a prompt's images."""
    return sum(vlm.adapter.n_image_tokens(vlm.processor, [image.size for image in images]))


def _check_context(vlm, asked: Question, images: Sequence[Image]) -> None:
    limit = getattr(vlm.model.config.get_text_config(), "max_position_embeddings", None)
    prefix = asked.scored.n_head + image_tokens(vlm, images)
    generated = vlm.max_new_tokens if asked.open else 0
    prompts = [(asked.scored.tail, max([generated, *map(len, asked.candidates)]))]
    prompts += [(asked.open.tail, generated)] if asked.open else []
    longest = max(prefix + len(tail) + answer for tail, answer in prompts)
    if limit and longest > limit:
        raise ContextError(
            f"the prompt with its longest answer takes {longest:,} tokens, the model's context holds {limit:,}"
        )
