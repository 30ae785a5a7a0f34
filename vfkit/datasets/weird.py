"""WEIRD as V-FAT items: odd images with ordinary ones, and an annotation file that says what is odd (VF 3.1).

WEIRD itself holds `dataset.jsonl` (one object a line: `id`, `path` without extension, `commonsense_violation_group`,
`commonsense_violation_subgroup`, `class`: `normal` or `weird`) and `images/`; it has no questions and no answers. The
annotation file, JSON lines too, brings them, one object for each odd image that is to count:

    {"id": "17",                            the odd image's id in dataset.jsonl
     "ordinary": "18",                      the id of an image of the same matter without the oddity
     "question": "What is the knight holding?",
     "truth": "a phone",                    what the odd image shows, and the ordinary one does not
     "trap": "a sword",                     what one would expect, and what the ordinary image shows
     "distractors": ["a book", "a flute"],  optional, wrong of both images; so are the fields below
     "aliases": ["smartphone"], "trap_aliases": [], "open_question": "",
     "assertions": {"L3": "Note the sword in the knight's hand."}}
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit.datasets.base import DatasetUnavailable, RowError, Rows
from vfkit.datasets.vfat_items import Item, image_file, inside, rows, why

ANNOTATIONS = "annotations.jsonl"
MISSING = (
    "weird needs path=: the folder with WEIRD's dataset.jsonl and images/, and an annotation file of what is asked "
    "(see vfkit.datasets.weird). A notebook takes `-p dataset_path FOLDER`. Without it, try mini_vfat."
)
CATEGORIES = {
    "time and historical context": "Temporal",
    **dict.fromkeys(("color and symbolic inversions", "size and spatial"), "Physical"),
    **dict.fromkeys(("environmental and habitat", "weather and seasonal"), "Environment"),
    **dict.fromkeys(("animal behavior", "food and nutrition", "physical and biological impossibilities"), "Biological"),
    **dict.fromkeys(("clothing and attire", "human and social behavior", "role and identity reversals"), "Social"),
    "object function and misuse": "Functional",
}
_ASKED = ("question", "open_question", "truth", "trap", "distractors", "aliases", "trap_aliases", "assertions")


def load(
    path: str | Path | None = None,
    annotations: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
) -> Rows:
    """V-FAT samples of annotated WEIRD images, six an item (`<id>/<level>/<format>`).

    Args:
        path: the folder with `dataset.jsonl` and `images/`.
        annotations: the annotation file; None takes `annotations.jsonl` in that folder.
        order_seed: of the options' order.
        n_items: how many items; None takes all.
        item_seed: of their choice.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: no `dataset.jsonl` or no annotation file there.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    root = Path(path)
    notes = Path(annotations) if annotations is not None else root / ANNOTATIONS
    for file, holds in ((root / "dataset.jsonl", "WEIRD's list of images"), (notes, "what is asked about each image")):
        if not file.is_file():
            raise FileNotFoundError(f"{file} does not exist: it holds {holds} (see vfkit.datasets.weird)")
    images, errors = {}, []
    for place, row, reason in json_lines(root / "dataset.jsonl"):
        if reason or row.get("id") is None:
            errors.append(RowError(place, reason or "the row has no id"))
        elif str(row["id"]) in images:
            errors.append(RowError(place, f"the id {str(row['id'])!r} occurs again; this later row is left out"))
        else:
            images[str(row["id"])] = row
    items = []
    for place, row, reason in json_lines(notes):
        id = "" if reason else str(row.get("id", ""))
        try:
            if reason:
                raise ValueError(reason)
            items.append(_item(id, row, root, images))
        except (ValueError, KeyError, OSError, RecursionError) as error:
            errors.append(RowError(id or place, why(error)))
    return rows(items, errors, order_seed, n_items, item_seed)


def json_lines(file: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(place, object, "" or why there is none) for every line that is not empty."""
    # as bytes: split at newlines only, and a line in another encoding costs itself alone
    with file.open("rb") as opened:
        for number, line in enumerate(opened, start=1):
            if not line.strip():
                continue
            place = f"{file.name} line {number}"
            try:
                text = line.decode("utf-8-sig")
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield place, {}, f"it is not JSON: {error}"
                continue
            yield (place, row, "") if isinstance(row, dict) else (place, {}, f"it is no object: {text[:100].strip()}")


def _item(id: str, note: dict[str, Any], root: Path, images: dict[str, dict[str, Any]]) -> Item:
    if unknown := set(note) - {"id", "ordinary", *_ASKED}:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    odd, usual = _row(images, id, "weird"), _row(images, str(note["ordinary"]), "normal")
    atypical, ordinary = _file(root, odd), _file(root, usual)
    if atypical == ordinary:
        raise ValueError(f"its ordinary image is the odd one itself: {atypical}")
    group = str(odd.get("commonsense_violation_group") or "")
    meta = {"source": "weird", "group": group, "subgroup": str(odd.get("commonsense_violation_subgroup") or "")}
    return Item(
        id=id,
        category=CATEGORIES.get(group.strip().casefold(), group),
        atypical=atypical,
        ordinary=ordinary,
        meta=meta | {"ordinary": str(note["ordinary"])},
        **{name: note[name] for name in _ASKED if name in note},
    )


def _row(images: dict[str, dict[str, Any]], id: str, kind: str) -> dict[str, Any]:
    if id not in images:
        raise ValueError(f"dataset.jsonl has no image {id!r}")
    if images[id].get("class") not in (kind, None):
        raise ValueError(f"image {id!r} is of class {images[id]['class']!r}, not {kind!r}")
    return images[id]


def _file(root: Path, row: dict[str, Any]) -> str:
    """Paths begin at the folder itself or at its `images/`."""
    name = row.get("path")
    inside(root, name)
    try:
        return image_file(root, name)
    except ValueError:
        return image_file(root / "images", name)
