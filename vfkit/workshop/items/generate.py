"""Generation of V-FAT items: one language model proposes, an independent one accepts or rejects (VF 3.1)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from vfkit.chat import Chat, Messages
from vfkit.datasets.base import RowError
from vfkit.datasets.files import ImageFolders
from vfkit.datasets.rows import json_rows
from vfkit.datasets.vfat_items import CATEGORIES, Item, Text, why
from vfkit.images import load_image
from vfkit.judge import strip_reasoning
from vfkit.models.api import image_part
from vfkit.study.store import write_atomic

CANDIDATES, REJECTS = "candidates.jsonl", "rejects.jsonl"
AT_ONCE = 16  # items whose images are held in memory

PROPOSE = (
    "You write test questions that tell whether someone looks at an image or answers by expectation.\n"
    "The first image contradicts common expectation; the second shows the ordinary state of the same matter.\n"
    "Annotation of the first image: {annotation}\n"
    "Write one question that fits both images and whose right answer differs between them. Reply with one JSON object "
    "and nothing else:\n"
    '{{"question": the question, neutral, without a clue to either answer,\n'
    ' "open_question": the same, so that a few words answer it without options,\n'
    ' "truth": the short answer that is right of the first image and wrong of the second,\n'
    ' "trap": the short answer that expectation gives: right of the second image, wrong of the first,\n'
    ' "distractors": [two short answers, plausible, wrong of both images],\n'
    ' "aliases": [other words for truth], "trap_aliases": [other words for trap],\n'
    ' "assertions": {{"L2": a sentence that asserts, wrongly, that the second image shows truth,\n'
    '                "L3": a sentence that asserts, wrongly, that the first image shows trap}},\n'
    ' "category": one of {categories}}}'
)
CRITICISE = (
    "You check test questions about images before they are used. The first image contradicts expectation; the second "
    "is ordinary. The proposal:\n{proposal}\n"
    "Accept it only if all of this holds: `truth` is plainly visible in the first image and false of the second; "
    "`trap` is true of the second image and false of the first; every distractor is false of both; the question is "
    "clear, gives no answer away and fits both images; the assertions L2 (on the second image) and L3 (on the first) "
    "are false.\n"
    'Reply with one JSON object and nothing else: {{"accept": true or false, "reason": one sentence}}'
)


class Seed(BaseModel):
    """One line of a file of seeds: two images within the file's folder, and what is unusual about the first."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    id: Text
    atypical: Text
    ordinary: Text
    annotation: Text
    category: str = ""


class _Verdict(BaseModel):
    model_config = ConfigDict(strict=True)

    accept: bool
    reason: Text


def made(file: Path, command: str) -> Path:
    """The file, which a command of `python -m vfkit.items` makes; FileNotFoundError says which, where it is missing."""
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file}: run `python -m vfkit.items {command}` first")
    return file


def seeds(file: str | Path) -> tuple[list[Seed], list[RowError]]:
    """Read a file of seeds: the seeds with their images located, and an error per invalid line.

    Raises:
        FileNotFoundError: there is no such file.
    """
    file = made(Path(file).expanduser(), "seeds")
    folders, loaded, errors = ImageFolders(file.parent), [], []
    for place, row in json_rows(file):
        try:
            if isinstance(row, Exception):
                raise row
            seed = Seed(**row)
            images = {name: folders.find(getattr(seed, name)) for name in ("atypical", "ordinary")}
            for source in images.values():
                load_image(source)
            loaded.append(seed.model_copy(update=images))
        except ValueError as error:
            item_id = "" if isinstance(row, Exception) else row.get("id")
            errors.append(RowError(str(item_id or f"{file.name} {place}"), why(error)))
    return loaded, errors


def generate(seeds: Sequence[Seed], generator: Chat, critic: Chat, folder: str | Path) -> tuple[int, int]:
    """Propose and criticise an item for each seed; returns the numbers of accepted and rejected items.

    `folder` gets `candidates.jsonl` (an `Item` a line, the critic's reason in its `meta`) and `rejects.jsonl` (id, who
    rejected it, reason, proposal). Both are rewritten by every call, from stored replies: a second call pays only for
    requests without a reply. Candidates do not count before a person has seen them (`vfkit.workshop.items.review`).

    Raises:
        ValueError: generator and critic are the same model.
        ModelUnavailable: an endpoint refuses the key or the model, or does not answer at all.
    """
    one, other = generator.endpoint, critic.endpoint
    if (one.model, one.base_url) == (other.model, other.base_url):
        raise ValueError(f"generator and critic are the same model, {one.model}: the critic must be independent")
    accepted: list[dict] = []
    rejected: list[dict] = []
    for start in range(0, len(seeds), AT_ONCE):
        for seed, item, stage, reason, said in _judged(seeds[start : start + AT_ONCE], generator, critic):
            if stage:
                rejected.append({"id": seed.id, "rejected_by": stage, "reason": reason, "proposal": said})
            else:
                accepted.append(item.model_dump() | {"meta": {"source": "generated", "critic": reason}})
    for name, rows in ((CANDIDATES, accepted), (REJECTS, rejected)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomic(Path(folder, name), lines.encode())
    return len(accepted), len(rejected)


def estimate(seeds: Sequence[Seed], generator: Chat) -> dict[str, float]:
    """Estimate the cost of the generator; the critic costs about the same. See `vfkit.chat.Chat.estimate`."""
    each = [generator.estimate([_proposal(seed)]) for seed in seeds]
    return {name: sum(one[name] for one in each) for name in each[0]} if each else {}


def _judged(chunk: Sequence[Seed], generator: Chat, critic: Chat):
    """Yield (seed, item, who rejected it, reason, the generator's reply), in the order of the seeds."""
    proposals = generator.ask_many([_proposal(seed) for seed in chunk])
    items: dict[str, Item] = {}
    reasons: dict[str, str] = {}
    for seed, reply in zip(chunk, proposals, strict=True):
        try:
            items[seed.id] = _item(seed, _object(reply))
        except (ValueError, TypeError, RuntimeError) as error:
            reasons[seed.id] = why(error)
    sound = [seed for seed in chunk if seed.id in items]
    verdicts = critic.ask_many([_asked(seed, CRITICISE.format(proposal=_shown(items[seed.id]))) for seed in sound])
    judged = dict(zip((seed.id for seed in sound), verdicts, strict=True))
    for seed, reply in zip(chunk, proposals, strict=True):
        said = "" if isinstance(reply, Exception) else reply.text
        if seed.id not in items:
            yield seed, None, "generator", reasons[seed.id], said
            continue
        try:
            verdict = _Verdict(**_object(judged[seed.id]))
            yield seed, items[seed.id], "" if verdict.accept else "critic", verdict.reason, said
        except (ValueError, TypeError, RuntimeError) as error:
            yield seed, None, "critic", f"no verdict: {why(error)}", said


def _proposal(seed: Seed) -> Messages:
    return _asked(seed, PROPOSE.format(annotation=seed.annotation, categories=", ".join(CATEGORIES)))


def _asked(seed: Seed, text: str) -> Messages:
    images = [image_part(load_image(source, seed.id)) for source in (seed.atypical, seed.ordinary)]
    return [{"role": "user", "content": [*images, {"type": "text", "text": text}]}]


def _object(reply: Any) -> dict[str, Any]:
    """Parse the JSON object in a reply, ignoring the text around it."""
    if isinstance(reply, Exception):
        raise reply
    text = strip_reasoning(reply.text)[0]
    reply = json.loads(text[text.find("{") : text.rfind("}") + 1] or "null")
    if not isinstance(reply, dict):
        raise ValueError(f"the reply holds no JSON object: {text[:200]!r}")
    return reply


def _item(seed: Seed, proposal: dict[str, Any]) -> Item:
    fixed = dict(id=seed.id, atypical=seed.atypical, ordinary=seed.ordinary)
    category = seed.category or proposal.get("category", "")
    return Item(**proposal | fixed | {"category": category, "meta": {}})


def _shown(item: Item) -> str:
    return json.dumps(item.model_dump(exclude={"id", "atypical", "ordinary", "meta"}), ensure_ascii=False, indent=1)
