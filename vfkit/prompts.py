"""The wording of all prompts (HI A.3; METHODS 4). A change here changes the key of every run."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from vfkit.names import unknown
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


@dataclass(frozen=True)
class Wording:
    """Templates of all prompts. `{question}` is the sample's; `{hint}` and `{options}` stand on lines of their own.

    Args:
        hint: the hint's line; `{hint}` in it is the text. Without a hint, lines `{hint}` are left out.
        option: one option's line, with `{letter}` and `{option}`.
        mcq, open, yes_no: the text part of each prompt.
    """

    hint: str = "Hint: {hint}"
    option: str = "{letter}. {option}"
    mcq: str = f"{{hint}}\nQuestion: {{question}}\nOptions:\n{{options}}\n{CHOOSE}"
    open: str = f"{{hint}}\nQuestion: {{question}}\n{CONCISE}"
    yes_no: str = f"{{hint}}\nQuestion: {{question}}\n{ONE_WORD}"

    def lead(self, prompt: str) -> str:
        """Text that stands directly before the question in a prompt."""
        return re.split(r"\{\w+\}\n?", getattr(self, prompt).partition("{question}")[0])[-1]


WORDING = Wording()
_NEEDS = {"hint": {"hint"}, "option": {"option"}, "mcq": {"question", "options"}}
_NEEDS |= {"open": {"question"}, "yes_no": {"question"}}
_MAY = {"hint": {"hint"}, "option": {"letter", "option"}, "mcq": {"hint", "question", "options"}}
_MAY |= {"open": {"hint", "question"}, "yes_no": {"hint", "question"}}


def load_wording(source: str | Path | Mapping[str, str]) -> Wording:
    """Load a wording from a YAML file or a mapping; templates that it lacks are ours (params/prompts.yaml).

    Raises:
        ValueError: no such file or no mapping of texts, a template that does not exist, or a placeholder that a
            template must not hold, must hold, or holds twice.
    """
    if isinstance(source, Mapping):
        given: Any = dict(source)
    else:
        try:
            given = yaml.safe_load(Path(source).expanduser().read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ValueError(f"the prompts in {source} cannot be read: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"prompts are templates by name, not {given!r}")
    names = [each.name for each in fields(Wording)]
    for name, template in given.items():
        if name not in names:
            raise unknown("template of prompts", name, names)
        if not isinstance(template, str):
            raise ValueError(f"the template {name!r} of prompts is a text, not {template!r}")
        held = re.findall(r"\{(\w+)\}", template)
        for place in held:
            if place not in _MAY[name]:
                raise unknown(f"placeholder of the template {name!r}:", place, _MAY[name])
        for written in re.findall(r"\{([^{}]*)\}", template):
            near = re.match(r"\s*(\w+)\s*(?:[!:].*)?$", written)
            if near and near[1] in _MAY[name] and written != near[1]:
                raise ValueError(f"the template {name!r} of prompts holds {{{written}}}: write {{{near[1]}}}")
        if missing := _NEEDS[name] - set(held):
            raise ValueError(f"the template {name!r} of prompts lacks {{{sorted(missing)[0]}}}")
        if len(held) > len(set(held)):
            raise ValueError(f"the template {name!r} of prompts holds a placeholder twice")
        alone = [place for place in ("hint", "options") if name in PROMPTS and place in held]
        for place in alone:
            if f"{{{place}}}" not in template.splitlines():
                raise ValueError(f"in the template {name!r} of prompts {{{place}}} needs a line of its own")
    return Wording(**asdict(WORDING) | {name: template.rstrip("\n") for name, template in given.items()})


def text(sample: Sample, prompt: str, wording: Wording = WORDING) -> str:
    """Write the text part of a user turn: lines joined by single newlines.

    Args:
        prompt: `mcq` lists the options by letter, `open` lists none, `yes_no` asks for one word (POPE).

    Raises:
        ValueError: unknown prompt, or one without a place for the sample's hint.
    """
    if prompt not in PROMPTS:
        raise ValueError(f"unknown prompt {prompt!r}; the prompts are {', '.join(PROMPTS)}")
    template: str = getattr(wording, prompt)
    if sample.hint and "{hint}" not in template:
        raise ValueError(
            f"sample {sample.id!r} has a hint, for which the template {prompt!r} of prompts has no {{hint}}"
        )
    if not sample.hint:
        template = "\n".join(line for line in template.split("\n") if line != "{hint}")
    options = [
        _filled(wording.option, letter=letter, option=option)
        for letter, option in zip(LETTERS, sample.options, strict=False)
    ]
    hint = _filled(wording.hint, hint=sample.hint)
    return _filled(template, question=sample.question, options="\n".join(options), hint=hint)


def _filled(template: str, **values: str) -> str:
    """Fill placeholders in one pass: a placeholder within a user's text stays text."""
    return re.sub(r"\{(\w+)\}", lambda place: values[place[1]], template)


def user_turn(body: str, n_images: int, question: str = "", lead: str = WORDING.lead("mcq")) -> list[dict]:
    """Make one user message in the form that chat templates take: image parts, then one text part; no system message.

    If `question`, as it occurs in `body`, marks its images with `<image 1>`, `<image 2>` ... (MMMU), they are placed at
    their marks, and images without a mark follow the question. A mark out of order, of a missing image, or anywhere
    else in `body` stays text. `lead` is what stands directly before the question (`Wording.lead`).
    """
    start = body.find(lead + question) + len(lead)
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
