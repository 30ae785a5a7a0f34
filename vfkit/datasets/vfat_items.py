"""V-FAT items: one contradiction between image and expectation, asked at three levels in two formats (VF 3.1).

| level | image    | prompt               | truth         | trap             |
|-------|----------|----------------------|---------------|------------------|
| L1    | atypical | neutral              | what it shows | what is usual    |
| L2    | ordinary | asserts the atypical | what is usual | what is asserted |
| L3    | atypical | asserts the usual    | what it shows | what is asserted |
| L0    | ordinary | neutral              | what is usual | the atypical     |

L0 is not VF's. It completes the design of image by prompt, from which the interaction of the two biases follows
(METHODS 13); loaders add it where `baseline=True`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from vfkit import prompts
from vfkit.datasets.base import RowError, Rows, distinct, rank, select
from vfkit.sample import LETTERS, Sample

LEVELS = ("L1", "L2", "L3")  # VF's
BASELINE = "L0"
FORMATS = ("mcq", "oe")
CATEGORIES = ("Temporal", "Physical", "Environment", "Biological", "Social", "Functional")  # VF's six
Text = Annotated[str, Field(min_length=1)]


class Item(BaseModel):
    """One item.

    Args:
        id: unique within its source.
        category: one of VF's six, or another name.
        atypical, ordinary: two images of the same matter, one against expectation; anything that
            `vfkit.load_image` opens. Without an ordinary image the item fills only L1 and L3.
        question: asked where options are listed.
        open_question: asked without options; empty takes `question`.
        truth, trap: what the atypical image shows, and what one would expect of it. Of the ordinary image (L2) they
            change places.
        distractors: further options, wrong of both images.
        aliases, trap_aliases: other words for `truth`, and for `trap`.
        assertions: level (L2, L3) -> what its prompt asserts; where none is given, that the image shows the trap.
        meta: anything else the source knows.

    Raises:
        pydantic.ValidationError (a ValueError): a field that is missing, empty or unknown, two options alike, more
            options than letters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    id: Text
    category: str = ""
    atypical: Any
    ordinary: Any = None
    question: Text
    open_question: str = ""
    truth: Text
    trap: Text
    distractors: tuple[Text, ...] = ()
    aliases: tuple[Text, ...] = ()
    trap_aliases: tuple[Text, ...] = ()
    assertions: dict[str, Text] = {}
    meta: dict[str, Any] = {}

    @model_validator(mode="after")
    def _sound(self) -> "Item":
        options = [option.casefold() for option in (self.truth, self.trap, *self.distractors)]
        if len(set(options)) < len(options):
            raise ValueError(f"two of the options are alike: {', '.join((self.truth, self.trap, *self.distractors))}")
        if len(options) > len(LETTERS):
            raise ValueError(f"{len(options)} options are more than there are letters")
        if unknown := set(self.assertions) - {"L2", "L3"}:
            raise ValueError(f"assertions are made at L2 and L3, not at {', '.join(sorted(unknown))}")
        return self


def item_samples(item: Item, order_seed: int = 0, baseline: bool = False) -> list[Sample]:
    """The six samples of an item, `<item>/<level>/<format>`, or eight with those of L0.

    The options of its multiple-choice samples stand in one order, drawn by `order_seed` and the item's id: so the true
    one and the trap change places between the images, and nothing else does. `meta["order"]` says what stands where.
    """
    return [
        _asked(item, level, form, sides, image, hint, order_seed)
        for level, image, sides, hint in _levels(item)
        if image is not None and (baseline or level != BASELINE)
        for form in FORMATS
    ]


def _levels(item: Item) -> Iterator[tuple[str, Any, tuple, str]]:
    """(level, image, (truth, trap, aliases, trap_aliases), assertion)."""
    shown = (item.truth, item.trap, item.aliases, item.trap_aliases)
    usual = (item.trap, item.truth, item.trap_aliases, item.aliases)
    yield BASELINE, item.ordinary, usual, ""
    yield "L1", item.atypical, shown, ""
    yield "L2", item.ordinary, usual, item.assertions.get("L2") or prompts.assertion(item.truth)
    yield "L3", item.atypical, shown, item.assertions.get("L3") or prompts.assertion(item.trap)


def _asked(item: Item, level: str, form: str, sides: tuple, image: Any, hint: str, order_seed: int) -> Sample:
    """One sample of an item; `sides` are truth, trap and the aliases of each."""
    truth, trap, aliases, trap_aliases = sides
    options, question = [truth, trap], item.open_question or item.question
    if form == "mcq":
        question = item.question
        options = in_order((item.truth, item.trap, *item.distractors), item.id, order_seed)
    return Sample(
        f"{item.id}/{level}/{form}",
        (image,),
        question,
        tuple(options),
        options.index(truth),
        item.category,
        hint,
        "mcq" if form == "mcq" else "open",
        sample_meta(item.id, level, form, truth, trap, aliases, trap_aliases, options)
        | ({"order_seed": order_seed} if form == "mcq" else {})
        | item.meta,
    )


def sample_meta(
    item: str, level: str, form: str, truth: str, trap: str, aliases: Sequence[str], trap_aliases: Sequence[str],
    options: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """What V-FAT's tables need of a sample; `order` says what each option is."""
    roles = {truth: "truth", trap: "trap"}
    return {
        "item": item, "level": level, "format": form, "truth": truth, "trap": trap,
        "aliases": list(aliases), "trap_aliases": list(trap_aliases),
        "order": [roles.get(option, "distractor") for option in options],
    }  # fmt: skip


def in_order(options: Sequence[str], item: str, seed: int) -> list[str]:
    """Options in the item's own random order."""
    return sorted(options, key=lambda option: rank(seed, item, "order", option))


def item_rows(
    items: Iterable[Item],
    errors: Iterable[RowError],
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    baseline: bool = False,
    notes: Iterable[str] = (),
) -> Rows:
    """All samples of all items, or of `n_items` of them, drawn by `item_seed` in proportion to their categories.

    Raises:
        ValueError: n_items is no positive whole number.
    """
    check_n_items(n_items)
    kept, again = distinct(items)
    chosen: list[Any] = kept if n_items is None else select(kept, n_items, item_seed)
    samples = [sample for item in chosen for sample in item_samples(item, order_seed, baseline)]
    return Rows(samples, [*errors, *again], notes=list(notes))


def check_n_items(n_items: int | None) -> None:
    """Raises ValueError unless it is a positive whole number, or None."""
    if n_items is None:
        return
    if isinstance(n_items, bool) or not isinstance(n_items, int):
        raise ValueError(f"n_items is {n_items!r}; it must be a whole number (None takes all)")
    if n_items < 1:
        raise ValueError(f"n_items is {n_items}; at least one item must be asked for (None takes all)")


def collect_items(rows: Iterable[tuple[str, Any]], make: Any) -> tuple[list[Item], list[RowError]]:
    """Items of all rows that give one, and an error for each of the others.

    Args:
        rows: an id for each, and the row, or the exception that reading it has raised.
        make: turns id and row into an item; raises for one that is not sound.
    """
    items, errors = [], []
    for row_id, row in rows:
        try:
            if isinstance(row, Exception):
                raise row
            items.append(make(row_id, row))
        except (ValueError, TypeError, KeyError, OSError, OverflowError, RecursionError) as error:
            errors.append(RowError(row_id, why(error)))
    return items, errors


def why(error: Exception) -> str:
    """What is wrong with a row, in one line."""
    if isinstance(error, ValidationError):
        each = [(".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in error.errors()]
        return "; ".join(f"{where}: {what}" if where else what for where, what in each)
    return f"the row has no {error}" if isinstance(error, KeyError) else str(error)


# --- statements -------------------------------------------------------------------------------------------------------


def gap(one: str, other: str) -> tuple[str, str, str] | None:
    """What sets two sentences apart, if it is one stretch of words: the sentence with a gap there, and what fills it in
    the first and in the second. None where they share too little, or one has nothing in the gap."""
    a, b = (re.sub(r"\s+", " ", text).strip().rstrip(".").split(" ") for text in (one, other))
    shorter = min(len(a), len(b))
    before = next((i for i in range(shorter) if a[i].casefold() != b[i].casefold()), shorter)
    left = shorter - before
    after = next((i for i in range(left) if a[-1 - i].casefold() != b[-1 - i].casefold()), left)
    first, second = (" ".join(words[before : len(words) - after]) for words in (a, b))
    if not first or not second or before + after < 2:
        return None
    return " ".join([*a[:before], prompts.GAP, *a[len(a) - after :]]), first, second
