"""The wording of all prompts (HI A.3). A change here changes the key of every run."""

import re

from vfkit.sample import LETTERS, Sample

PROMPTS = ("mcq", "open", "yes_no")

CHOOSE = "Select the correct answer from the options above."
CONCISE = "Give a concise answer."
ONE_WORD = "Answer with exactly one word, Yes or No."

# V-FAT: what items built of statements ask (VF 3.1)
GAP = "____"
WHICH_STATEMENT = "Which statement is true of this image?"
FILL_GAP = "Going by this image, what belongs in the gap? {sentence}."
WEIRD_OR_NORMAL = "Is this image weird or normal?"
WHAT_COLOR = "What color is this {thing}?"
WHICH_IS_LARGER = "Which is larger in this image, the {one} or the {other}?"
IN_ONE_SENTENCE = "What is true of {subject} in this image? Say it in one short sentence."


def assertion(statement: str) -> str:
    """Write a misleading hint: that the image shows what a statement says."""
    return f"This image shows the following: {statement.rstrip('.')}."


def answer_assertion(answer: str) -> str:
    """Write a misleading hint about an answer that is not a statement: a number, yes or no."""
    return f"For this image the answer is {answer.rstrip('.')}."


def open_form(sample: Sample) -> str:
    """Name the prompt of a sample's generated open answer: `open`, or for a yes/no question its own."""
    return "yes_no" if sample.prompt == "yes_no" else "open"


def text(sample: Sample, prompt: str) -> str:
    """Write the text part of a user turn: lines joined by single newlines.

    Args:
        prompt: `mcq` lists the options by letter, `open` lists none, `yes_no` asks for one word (POPE).

    Raises:
        ValueError: unknown prompt.
    """
    lines = [f"Hint: {sample.hint}"] if sample.hint else []
    lines.append(f"Question: {sample.question}")
    if prompt == "mcq":
        lines += ["Options:", *(f"{letter}. {option}" for letter, option in zip(LETTERS, sample.options, strict=False))]
        lines.append(CHOOSE)
    elif prompt == "open":
        lines.append(CONCISE)
    elif prompt == "yes_no":
        lines.append(ONE_WORD)
    else:
        raise ValueError(f"unknown prompt {prompt!r}; the prompts are {', '.join(PROMPTS)}")
    return "\n".join(lines)


def user_turn(body: str, n_images: int, question: str = "") -> list[dict]:
    """Make one user message in the form that chat templates take: image parts, then one text part; no system message.

    If `question`, as it occurs in `body`, marks its images with `<image 1>`, `<image 2>` ... (MMMU), they are placed at
    their marks, and images without a mark follow the question. A mark out of order, of a missing image, or anywhere
    else in `body` stays text.
    """
    start = body.find(f"Question: {question}") + len("Question: ")
    end, parts, done, placed = start + len(question), [], 0, 0
    for mark in re.finditer(r"<image (\d+)>", body[:end]) if question else ():
        if mark.start() >= start and int(mark[1]) == placed + 1 <= n_images:
            parts += [_text(body[done : mark.start()]), {"type": "image"}]
            done, placed = mark.end(), placed + 1
    if not placed:
        return _user([{"type": "image"}] * n_images + [_text(body)])
    left = [{"type": "image"}] * (n_images - placed)
    parts += [_text(body[done:end]), *left, _text(body[end:])] if left else [_text(body[done:])]
    return _user([part for part in parts if part != _text("")])


def _text(text: str) -> dict:
    return {"type": "text", "text": text}


def _user(content: list[dict]) -> list[dict]:
    return [{"role": "user", "content": content}]


def answered(messages: list[dict], answer: str, bare: bool = False) -> list[dict]:
    """Append an assistant turn with `answer`, as a part or as plain text."""
    return [*messages, {"role": "assistant", "content": answer if bare else [_text(answer)]}]
