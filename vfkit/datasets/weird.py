"""WEIRD: images against common sense, each with an ordinary one of the same matter (VF 3.1).

Two forms are read. The **release**: a folder with `images/` and `dataset.jsonl`, one object a line: `id`, `path`
(without extension), `commonsense_violation_group`, `commonsense_violation_subgroup`, `class` (`normal` or `weird`).
And **parquet**, as the MERA benchmark has it (`data/test-*.parquet`, 814 rows, and 10 of `shots`), one row an image:

| column | holds |
|---|---|
| `inputs` | `{image: {bytes, path}, question, option_a, option_b}`: which of the two the image is, odd or ordinary |
| `outputs` | the right letter |
| `meta` | `{id, categories: {commonsense_violation_group, commonsense_violation_subgroup}, caption, pair_id, ...}` |

`pair_id` gives the ordinary image of each odd one; in the release a row may have one too.

WEIRD asks nothing but whether an image is odd. **V-FAT items** need questions with truth and trap: an annotation file,
JSON lines, one object for each odd image that is to count:

    {"id": "17",                            the odd image's id
     "ordinary": "18",                      the ordinary image's id; optional where pair_id tells
     "question": "What is the knight holding?",
     "truth": "a phone",                    what the odd image shows, and the ordinary one does not
     "trap": "a sword",                     what one would expect, and what the ordinary image shows
     "distractors": ["a book", "a flute"],  optional, wrong of both images; so are the fields below
     "aliases": ["smartphone"], "trap_aliases": [], "open_question": "",
     "assertions": {"L3": "Note the sword in the knight's hand."}}

Without such a file the samples ask WEIRD's own question. `python -m vfkit.items` makes items from either form.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vfkit import prompts
from vfkit.datasets.base import DatasetUnavailable, RowError, Rows
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.rows import json_rows, parquet_rows
from vfkit.datasets.vfat_items import Item, collect_items, item_rows
from vfkit.sample import Sample

ANNOTATIONS = "annotations.jsonl"
MISSING = (
    "weird needs path=: the folder with WEIRD's dataset.jsonl and images/, or its parquet files; for V-FAT items also "
    "an annotation file of what is asked (see vfkit.datasets.weird). A notebook takes `-p dataset_path FOLDER`. Or "
    "try mini_vfat."
)
CATEGORIES = {
    "time and historical context": "Temporal",
    **dict.fromkeys(("color and symbolic inversions", "size and spatial"), "Physical"),
    **dict.fromkeys(("environmental and habitat", "weather and seasonal"), "Environment"),
    **dict.fromkeys(("animal behavior", "food and nutrition", "physical and biological impossibilities"), "Biological"),
    **dict.fromkeys(("clothing and attire", "human and social behavior", "role and identity reversals"), "Social"),
    "object function and misuse": "Functional",
}
ODD = ("weird", "strange", "odd", "странн")
"""How texts of options that call an image odd begin; the parquet form is in Russian."""
_ASKED = ("question", "open_question", "truth", "trap", "distractors", "aliases", "trap_aliases", "assertions")


@dataclass(frozen=True)
class Picture:
    """One image of WEIRD.

    Args:
        odd: whether it is against common sense; None where the data do not say.
        caption: what it was made to show; empty where the data do not say.
        pair: what it shares with its partner; empty where the data do not say.
        own: WEIRD's own question about it, its options, and the right one.
    """

    id: str
    image: Any
    odd: bool | None
    group: str
    subgroup: str
    caption: str
    pair: str
    own: tuple[str, tuple[str, ...], int | None]

    @property
    def category(self) -> str:
        """VF's category, else WEIRD's own group."""
        return CATEGORIES.get(self.group.strip().casefold(), self.group)


def load(
    path: str | Path | None = None,
    annotations: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    baseline: bool = False,
    split: str = "test",
) -> Rows:
    """V-FAT samples of annotated WEIRD images, six an item (`<id>/<level>/<format>`), or WEIRD's own question.

    Args:
        path: the folder of either form, or a parquet file.
        annotations: the annotation file; None takes `annotations.jsonl` in that folder. Where that is not there, each
            image is one sample that asks whether it is odd; `meta` names its pair and its partner.
        order_seed: of the options' order.
        n_items: how many items; None takes all.
        item_seed: of their choice.
        baseline: also L0, the neutral prompt on the ordinary image.
        split: of the parquet form: `test` or `shots`.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: neither form is there, or not the annotation file that is named.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    root = Path(path).expanduser()
    notes = Path(annotations).expanduser() if annotations is not None else root / ANNOTATIONS
    if annotations is not None and not notes.is_file():
        raise FileNotFoundError(f"{notes} does not exist: it holds what is asked (see vfkit.datasets.weird)")
    pictures, errors = read(root, split)
    if not notes.is_file():
        rows = _own(pictures, errors)
        rows.notes = ["there is no annotation file, so samples ask WEIRD's own question and are no V-FAT items"]
        return rows
    asked = ((_id(row, f"{notes.name} {place}"), row) for place, row in json_rows(notes))
    items, more = collect_items(asked, lambda row_id, row: _item(row_id, row, pictures))
    return item_rows(items, [*errors, *more], order_seed, n_items, item_seed, baseline)


def _id(row: Any, place: str) -> str:
    return place if isinstance(row, Exception) or row.get("id") in (None, "") else str(row["id"])


def read(root: Path, split: str = "test") -> tuple[dict[str, Picture | ValueError], list[RowError]]:
    """Every image by its id, those that cannot be used as the error that says why; and rows that have no id.

    Raises:
        FileNotFoundError: neither form is there.
    """
    if (root / "dataset.jsonl").is_file():
        rows, make = _release_rows(root), _of_release
        folders = ImageFolders(root, root / "images")
    else:
        try:
            files = matching(root, f"data/{split}-*.parquet", f"**/{split}-*.parquet")
        except FileNotFoundError as error:
            raise FileNotFoundError(f"no WEIRD: {error}, and no dataset.jsonl (see vfkit.datasets.weird)") from None
        rows, make = _parquet(files), _of_parquet
        folders = ImageFolders()
    pictures: dict[str, Picture | ValueError] = {}
    errors = []
    for place, row_id, row in rows:
        if row_id in (None, "") or isinstance(row, Exception):
            errors.append(RowError(place, str(row) if isinstance(row, Exception) else "the row has no id"))
        elif str(row_id) in pictures:
            errors.append(RowError(place, f"the id {str(row_id)!r} occurs again; this later row is left out"))
        else:
            try:
                pictures[str(row_id)] = make(str(row_id), row, folders)
            except (ValueError, TypeError, AttributeError, OSError) as error:
                pictures[str(row_id)] = ValueError(f"image {str(row_id)!r}: {error}")
    return pictures, errors


def pairs(pictures: dict[str, Picture | ValueError]) -> tuple[list[tuple[Picture, Picture]], list[RowError]]:
    """Each odd image with its ordinary partner, and an error for each image without one."""
    groups: dict[str, list[Picture]] = defaultdict(list)
    errors = []
    for row_id, picture in pictures.items():
        if isinstance(picture, ValueError):
            errors.append(RowError(row_id, str(picture)))
        elif not picture.pair:
            errors.append(RowError(row_id, "nothing says which image is its partner: it has no pair_id"))
        else:
            groups[picture.pair].append(picture)
    both = []
    for name, group in groups.items():
        odd, usual = ([one for one in group if one.odd is kind] for kind in (True, False))
        if len(odd) == len(usual) == 1 and len(group) == 2:
            both.append((odd[0], usual[0]))
        else:
            reason = f"pair {name} holds {len(odd)} odd and {len(usual)} ordinary images of {len(group)}"
            errors += [RowError(one.id, reason) for one in group]
    return both, errors


# --- the forms --------------------------------------------------------------------------------------------------------


def _release_rows(root: Path) -> Iterator[tuple[str, Any, Any]]:
    for place, row in json_rows(root / "dataset.jsonl"):
        yield f"dataset.jsonl {place}", None if isinstance(row, Exception) else row.get("id"), row


def _of_release(row_id: str, row: dict[str, Any], folders: ImageFolders) -> Picture:
    kind = row.get("class")
    odd = {"weird": True, "normal": False}.get(kind or "")
    if odd is None and kind is not None:
        raise ValueError(f"its class {kind!r} is neither weird nor normal")
    return Picture(
        row_id, folders.find(row.get("path")), odd, str(row.get("commonsense_violation_group") or ""),
        str(row.get("commonsense_violation_subgroup") or ""), _text(row.get("caption")), _text(row.get("pair_id")),
        (prompts.WEIRD_OR_NORMAL, ("weird", "normal"), None if odd is None else int(not odd)),
    )  # fmt: skip


def _parquet(files: list[Path]) -> Iterator[tuple[str, Any, Any]]:
    for file in files:
        for place, row in parquet_rows(file):
            if isinstance(row, dict) and not {"inputs", "meta"} <= set(row):
                raise ValueError(
                    f"{file} is no parquet file of WEIRD: it has columns {', '.join(map(str, row))[:200]}. "
                    "Wanted: inputs, outputs, meta"
                )
            meta = row.get("meta") if isinstance(row, dict) else None
            yield f"{file.stem} {place}", meta.get("id") if isinstance(meta, dict) else None, row


def _of_parquet(row_id: str, row: dict[str, Any], folders: ImageFolders) -> Picture:
    asked, meta, answer = row["inputs"], row["meta"], str(row.get("outputs") or "").strip().upper()
    options = tuple(str(asked.get(f"option_{letter}") or "") for letter in "ab")
    if not all(options) or options[0] == options[1]:
        raise ValueError(f"its options are {options}")
    right = "AB".index(answer) if answer in ("A", "B") else None
    odd = None if right is None else options[right].casefold().startswith(ODD)
    categories = meta.get("categories") or {}
    return Picture(
        row_id, image_of(asked.get("image"), folders, "its image"), odd,
        str(categories.get("commonsense_violation_group") or ""),
        str(categories.get("commonsense_violation_subgroup") or ""), _text(meta.get("caption")),
        _text(meta.get("pair_id")),
        (str(asked.get("question") or "").strip() or prompts.WEIRD_OR_NORMAL, options, right),
    )  # fmt: skip


def _text(value: Any) -> str:
    return "" if value is None else str(value)


# --- samples ----------------------------------------------------------------------------------------------------------


def _own(pictures: dict[str, Picture | ValueError], errors: list[RowError]) -> Rows:
    """One sample an image: is it odd?"""
    partner: dict[str, str] = {}
    for odd, usual in pairs(pictures)[0]:
        partner |= {odd.id: usual.id, usual.id: odd.id}
    samples = []
    for row_id, one in pictures.items():
        if isinstance(one, ValueError):
            errors = [*errors, RowError(f"weird/{row_id}", str(one))]
            continue
        question, options, right = one.own
        meta: dict[str, Any] = {"id": row_id, "pair_id": one.pair, "partner": partner.get(row_id, "")}
        meta |= {"odd": one.odd, "group": one.group}
        samples.append(Sample(f"weird/{row_id}", (one.image,), question, options, right, one.category, meta=meta))
    return Rows(samples, errors)


def _item(row_id: str, note: dict[str, Any], pictures: dict[str, Picture | ValueError]) -> Item:
    if strange := set(note) - {"id", "ordinary", *_ASKED}:
        raise ValueError(f"unknown fields: {', '.join(sorted(strange))}")
    odd = _picture(pictures, str(note["id"]), True)
    named = note.get("ordinary")
    if named is None:
        same = [one for one in pictures.values() if isinstance(one, Picture) and one.pair and one.pair == odd.pair]
        named = next((one.id for one in same if one.odd is False), None)
        if named is None:
            raise ValueError("it names no ordinary image, and no pair_id tells which it is")
    usual = _picture(pictures, str(named), False)
    if odd.image == usual.image:
        raise ValueError(f"its ordinary image is the odd one itself: {odd.image}")
    return Item(
        id=row_id,
        category=odd.category,
        atypical=odd.image,
        ordinary=usual.image,
        meta={"source": "weird", "group": odd.group, "subgroup": odd.subgroup, "ordinary": usual.id},
        **{name: note[name] for name in _ASKED if name in note},
    )


def _picture(pictures: dict[str, Picture | ValueError], row_id: str, odd: bool) -> Picture:
    if row_id not in pictures:
        raise ValueError(f"WEIRD has no image {row_id!r}")
    picture = pictures[row_id]
    if isinstance(picture, ValueError):
        raise picture
    if picture.odd is (not odd):
        kind = ("ordinary", "odd")
        raise ValueError(f"image {row_id!r} is {kind[picture.odd]}, not {kind[odd]}")
    return picture
