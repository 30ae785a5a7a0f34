"""Every prompt text, in one place (HI A.3). A change here changes the key of every run."""

from vfkit.sample import LETTERS, Sample

PROMPTS = ("mcq", "open", "yes_no")

CHOOSE = "Select the correct answer from the options above."
CONCISE = "Give a concise answer."
ONE_WORD = "Answer with exactly one word, Yes or No."


def text(sample: Sample, prompt: str) -> str:
    """The text part of a user turn: lines joined by single newlines.

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


def user_turn(body: str, n_images: int) -> list[dict]:
    """One user message in the form chat templates take: image parts, then one text part; no system message."""
    return [{"role": "user", "content": [{"type": "image"}] * n_images + [{"type": "text", "text": body}]}]


def answered(messages: list[dict], answer: str) -> list[dict]:
    """The same conversation with an assistant turn that gives `answer`."""
    return [*messages, {"role": "assistant", "content": [{"type": "text", "text": answer}]}]
