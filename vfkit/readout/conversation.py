"""From a sample's words to the tokens that are read: prompts and answers as the model's own chat template has them."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from vfkit import prompts
from vfkit.judge.answers import REASONING
from vfkit.sample import LETTERS, Sample


class ConversationError(ValueError):
    """A chat template or tokenizer that does not let answers be found in the tokenised conversation."""


@dataclass(frozen=True)
class Answer:
    """One answer as the assistant's turn: the whole conversation, the tokens of its text, and of the turn's end (none
    where the next turn's opening is the end of this one)."""

    messages: list[dict]
    text: tuple[int, ...]
    end: tuple[int, ...]


@dataclass(frozen=True)
class Prompt:
    """One rendered user turn: its text up to the last image, its tokens after it, and the answers scored under it.

    `n_head` counts the tokens of `head`, an image placeholder as what the tokenizer makes of it. `asked` are the tokens
    after the last image as the generation prompt has them, `tail` those that an answer follows.
    They differ where the template writes something before every answer: the empty reasoning of a thinking model.
    `opened` is the tag of a reasoning that the generation prompt opens and leaves to the model, if it does.
    `faithful` is false where the template opens an answered turn with other white space than the generation prompt;
    answers then follow the generation prompt, which is what the model is trained and asked to continue.
    """

    messages: list[dict]
    head: str
    n_head: int
    asked: tuple[int, ...]
    tail: tuple[int, ...]
    faithful: bool = True
    opened: str = ""
    answers: tuple[Answer, ...] = ()
    letters: tuple[Answer, ...] = ()


def plain(text: str, processor) -> str:
    """User text without any special token of the model: each is broken by a space after its first character.

    Otherwise a question that happens to hold an image placeholder would become an image, and one with the end of a turn
    in it a conversation.
    """
    special = [token for token in special_tokens(processor).values() if len(token) > 1]
    while present := [token for token in special if token in text]:
        for token in present:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def special_tokens(processor) -> dict[int, str]:
    """Special tokens by id: those the tokenizer names, those only marked so among its added tokens (the turn tokens of
    Gemma-3 and GLM), and the processor's image and video tokens."""
    named = (getattr(processor, name, None) for name in ("image_token", "video_token", "boi_token", "eoi_token"))
    return _special_tokens(processor.tokenizer, tuple(token for token in named if isinstance(token, str)))


@lru_cache(maxsize=8)
def _special_tokens(tokenizer, named: tuple[str, ...]) -> dict[int, str]:
    marked = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    texts = dict.fromkeys([*named, *tokenizer.all_special_tokens, *marked])
    return {tokenizer.convert_tokens_to_ids(token): token for token in texts}


@lru_cache(maxsize=8)
def turn_end(processor, template: str | None) -> int | None:
    """The token that closes an assistant's turn in a rendered conversation that goes on: the first special token after
    the answer. Where nothing but the next turn ends one (GLM-4V), that is the next turn's opening.

    Args:
        template: the processor's chat template.

    Returns:
        None where no special token stands between two turns.
    """
    asked = prompts.user_turn(prompts.CONCISE, 0)
    conversation = [*prompts.answered(asked, _MARK, _turn(processor, asked).bare), *asked]
    between = _render(processor, conversation, generate=False).rpartition(_MARK)[2].partition(prompts.CONCISE)[0]
    special = special_tokens(processor)
    return next((token for token in _ids(between, processor) if token in special), None)


@lru_cache(maxsize=8)
def thinks(processor, template: str | None) -> bool:
    """Whether the chat template writes a reasoning, empty here, before an answer.

    Args:
        template: the processor's chat template.
    """
    turn = _turn(processor, prompts.user_turn(prompts.CONCISE, 0))
    return re.search(rf"</{REASONING}>", turn.before.rpartition(prompts.CONCISE)[2]) is not None


def scored_prompt(
    sample: Sample, n_images: int, processor, placeholder: str, wording: prompts.Wording = prompts.WORDING
) -> Prompt:
    """The sample's own prompt with every option, and letter, as an answer."""
    options = [plain(option, processor) for option in sample.options]
    letters = LETTERS[: len(options)] if sample.prompt == "mcq" else ""
    asked = rendered_prompt(sample, sample.prompt, n_images, processor, placeholder, wording)
    messages = asked.messages
    return replace(
        asked,
        answers=tuple(answer_tokens(messages, option, processor, placeholder) for option in options),
        letters=tuple(answer_tokens(messages, letter, processor, placeholder) for letter in letters),
    )


def open_prompt(
    sample: Sample, n_images: int, processor, placeholder: str, wording: prompts.Wording = prompts.WORDING
) -> Prompt:
    """The same question without its options, or, of a yes/no question, its own prompt; nothing is scored under it."""
    return rendered_prompt(sample, prompts.open_form(sample), n_images, processor, placeholder, wording)


def rendered_prompt(
    sample: Sample, prompt: str, n_images: int, processor, placeholder: str, wording: prompts.Wording = prompts.WORDING
) -> Prompt:
    """A sample's question in one of the prompts of `vfkit.prompts`, without answers."""
    body, question = (plain(text, processor) for text in (prompts.text(sample, prompt, wording), sample.question))
    messages = prompts.user_turn(body, n_images, question, wording.lead(prompt))
    rendered, turn = _render(processor, messages, generate=True), _turn(processor, messages)
    tail = _tail(rendered, placeholder)
    ids = _ids(tail, processor), _ids(_tail(turn.context, placeholder), processor)
    head = rendered.removesuffix(tail)
    opened = re.search(rf"<{REASONING}>(?=\s*$)", rendered)
    faithful = turn.context == turn.before
    return Prompt(messages, head, len(_ids(head, processor)), *ids, faithful, opened=opened[0] if opened else "")


def answer_tokens(messages: list[dict], answer: str, processor, placeholder: str) -> Answer:
    """Tokens of an answer, found in the tokenised conversation itself.

    Raises:
        ConversationError: the answered conversation does not continue the prompt, or the end of the turn is not
            separable from the answer.
    """
    turn = _turn(processor, messages)
    conversation = prompts.answered(messages, answer, bare=turn.bare)
    whole = _render(processor, conversation, generate=False)
    said = whole.removeprefix(turn.before)
    spoken = answer if said.startswith(answer) else answer.strip()  # some templates strip answers
    if not whole.startswith(turn.before) or not said.startswith(spoken):
        raise ConversationError(f"the chat template does not keep the answer {answer!r} as it is")
    ids = _ids(_tail(turn.context + said, placeholder), processor)
    prompt = _ids(_tail(turn.context, placeholder), processor)
    end = _ids(said[len(spoken) :], processor)
    n_text = len(ids) - len(prompt) - len(end)
    if ids[: len(prompt)] != prompt or n_text < 1 or ids[len(prompt) + n_text :] != end:
        raise ConversationError(f"the tokens of the answer {answer!r} cannot be told from those around them")
    return Answer(conversation, ids[len(prompt) : len(prompt) + n_text], end)


@dataclass(frozen=True)
class _Turn:
    """How a template writes an assistant's turn: the text `before` any answer, the `context` that answers are read in
    (the same but for white space, see `Prompt`), and whether it takes the answer as a bare text, not as parts."""

    before: str
    context: str
    bare: bool


def _turn(processor, messages: list[dict]) -> _Turn:
    asked = _render(processor, messages, generate=True)
    for bare in (True, False):
        conversation = prompts.answered(messages, _MARK, bare)
        before, marked, _ = _render(processor, conversation, generate=False).rpartition(_MARK)
        if marked and before.startswith(asked):
            return _Turn(before, before, bare)
        if marked and before.split() == asked.split():
            return _Turn(before, asked, bare)
        if marked:
            raise ConversationError(
                "the chat template writes an answered turn differently from the prompt it continues"
            )
    raise ConversationError("the chat template leaves out what the assistant says")


_MARK = "\N{ASTERISM}"  # an answer that no template writes of its own


def _render(processor, messages: list[dict], generate: bool) -> str:
    if not processor.chat_template:
        raise ConversationError("the processor has no chat template; chat models only")
    return processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)


def _tail(rendered: str, placeholder: str) -> str:
    """What follows the last image placeholder; all of it where there is no image."""
    return rendered.rsplit(placeholder, 1)[-1]


def _ids(text: str, processor) -> tuple[int, ...]:
    return tuple(processor.tokenizer(text, add_special_tokens=False)["input_ids"])
