"""VLind-Bench (arXiv 2406.08702) as V-FAT items: counterfactual and factual images, a statement true of each (VF 3.1).

Three forms are read. The folder of the **release**: `data.json`, a list of objects (`global_id`, `context_id`,
`concept`, `context`, `factual_context`, `true_statement`, `false_statement`, `existent_noun`, `best_img_id`,
`aggregated_human_label_good_images`: votes by image), and the images

    counterfactual/<concept>/<context_id>_<context>/<0..11>.jpg
    factual/<concept>/<context_id>_<factual_context>/0.jpg

in the folder itself, `images/`, `data/`, `data/images/` or `VLind-Bench Dataset/images/`. A parquet **mirror by
image** (hub `MM-Hallu/VLind-Bench`): one row per image, with the object's fields, `image_type` (`factual` or
`counterfactual`), `image`, and the image's number in `image_id` or in its file's name; without votes, a single
counterfactual image is taken as the best. And a parquet **mirror by item**: one row per object, with
`factual_image`, `cf_image_0` ... `cf_image_11` and, instead of votes, `good_img_ids`; its missing images are white ones
of one pixel.

`true_statement` is true of the counterfactual image, `false_statement` of the ordinary one.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vfkit import prompts
from vfkit.datasets.base import DatasetUnavailable, RowError, Rows
from vfkit.datasets.files import ImageFolders, check_image, image_of
from vfkit.datasets.rows import parquet_rows
from vfkit.datasets.vfat_items import Item, collect_items, gap, item_rows

CATEGORIES = {
    **dict.fromkeys(("history", "time"), "Temporal"),
    **dict.fromkeys(("color", "size", "weight"), "Physical"),
    **dict.fromkeys(("climate", "habitat", "landmark", "location"), "Environment"),
    "diet": "Biological",
    "folklore": "Functional",
}
GOOD_VOTES = 2  # people who found an image good: fewer, and it is not used
LONGEST = 100  # characters of an id; longer ones are invalid, and Python refuses to read numbers of thousands of digits
MISSING = (
    "vlind needs path=: the folder of VLind-Bench (data.json and images), or one of its parquet mirrors. A notebook "
    "takes `-p dataset_path FOLDER`. Without it, try mini_vfat."
)
_DATA = ("", "data", "VLind-Bench Dataset", "data/VLind-Bench Dataset")
_IMAGES = ("", "images", "data", "data/images", "VLind-Bench Dataset/images", "VLind-Bench Dataset")
_NUMBER = ("image_id", "img_id", "image_index", "img_index", "image_number")  # of an image in a mirror's row

ImageOf = Callable[[str, str], Any]  # (kind, number) -> an image, or a ValueError that says why not


def load(
    path: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    baseline: bool = False,
) -> Rows:
    """V-FAT samples of VLind-Bench, six an item (`<global_id>/<level>/<format>`).

    The counterfactual image is the one VLind names best, if two people or more found it good, else the one that most
    did; where there are no votes, the best or the first of those called good. `meta["candidate"]` says which. An item
    without a good image, or with one of its two images missing, is left out whole, as one error row, so that levels and
    formats stay comparable.

    Args:
        path: the folder of the release or its data.json, or a parquet file or a folder with some.
        order_seed: of the options' order.
        n_items: how many items; None takes all (the release has 302).
        item_seed: of their choice.
        baseline: also L0, the neutral prompt on the ordinary image.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: none of the forms is there.
        ValueError: a file that is not what its name says.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    items, errors, notes = read(Path(path).expanduser())
    return item_rows(items, errors, order_seed, n_items, item_seed, baseline, notes)


def read(root: Path) -> tuple[list[Item], list[RowError], list[str]]:
    """The items in any of the forms, an error for each that cannot be made, and what to know of them as a whole."""
    parquet = (
        [root] if root.suffix == ".parquet" else sorted(root.glob("*.parquet")) + sorted(root.glob("data/*.parquet"))
    )
    root = root.parent if root.name == "data.json" else root
    data = next((root / place / "data.json" for place in _DATA if (root / place / "data.json").is_file()), None)
    if data is None and not (parquet and parquet[0].is_file()):
        raise FileNotFoundError(
            f"no VLind-Bench in {root}: there is neither data.json nor a parquet file (see vfkit.datasets.vlind)"
        )
    records = _mirror(parquet) if data is None else _release(root, data)
    votes: list[bool] = []

    def make(_: str, record: tuple[Any, ImageOf]) -> Item:
        row, image_of_row = record
        item = _item(row, image_of_row)
        votes.append("aggregated_human_label_good_images" in row)
        return item

    rows = ((_name(row, at), row if isinstance(row, Exception) else (row, of)) for at, (row, of) in enumerate(records))
    items, errors = collect_items(rows, make)
    notes = [] if not votes or all(votes) else ["these rows have no votes: images called good are taken at their word"]
    return items, errors, notes


def _name(row: Any, at: int) -> str:
    row_id = _id(row.get("global_id")) if isinstance(row, dict) else ""
    return row_id[:LONGEST] or f"row {at}"


def _item(row: Any, image_of_row: ImageOf) -> Item:
    row_id = _id(row.get("global_id")) if isinstance(row, dict) else ""
    if not row_id:
        raise ValueError(f"the row has no global_id: {str(row)[:200]}")
    if len(row_id) > LONGEST:
        raise ValueError(f"its global_id has {len(row_id):,} characters")
    true, false = _text(row, "true_statement"), _text(row, "false_statement")
    concept = _text(row, "concept")
    number, atypical = _good_image(row, image_of_row)
    filled = gap(true, false)
    asks: dict[str, Any]
    if filled:
        sentence, shown, usual = filled
        asks = dict(open_question=prompts.FILL_GAP.format(sentence=sentence), aliases=(shown,), trap_aliases=(usual,))
    else:
        subject = str(row.get("existent_noun") or concept)
        asks = dict(open_question=prompts.IN_ONE_SENTENCE.format(subject=subject))
    return Item(
        id=row_id, category=CATEGORIES.get(concept.casefold(), concept), truth=true, trap=false,
        atypical=atypical, ordinary=image_of_row("factual", "0"), question=prompts.WHICH_STATEMENT, **asks,
        meta={"source": "vlind", "concept": concept, "context_id": _id(row.get("context_id")), "candidate": number},
    )  # fmt: skip


def _good_image(row: dict[str, Any], image_of_row: ImageOf) -> tuple[str, Any]:
    """The number of the best counterfactual image, and the image."""
    best = _id(row.get("best_img_id"))
    if "aggregated_human_label_good_images" in row:
        votes = row["aggregated_human_label_good_images"] or {}
        votes = json.loads(votes) if isinstance(votes, str) else votes
        listed = votes.items() if isinstance(votes, dict) else votes
        good = {_id(image): int(n) for image, n in listed if n is not None and int(n) >= GOOD_VOTES}  # may be padded
        if not good:
            raise ValueError(f"none of its counterfactual images has {GOOD_VOTES} votes: {str(votes)[:200]}")
        number = best if best in good else min(good, key=lambda image: (-good[image], len(image), image))
        return number, image_of_row("counterfactual", number)
    called = [_id(image) for image in row.get("good_img_ids") or ()]
    if best and (best in called or not called):
        called = [best, *(image for image in called if image != best)]
    if not called:
        raise ValueError("none of its counterfactual images is called good")
    for number in called:
        try:
            return number, image_of_row("counterfactual", number)
        except ValueError as error:
            missing = error
    raise missing


def _text(row: dict[str, Any], name: str) -> str:
    if not isinstance(row[name], str) or not row[name].strip():
        raise ValueError(f"its {name} is {str(row[name])[:200]!r}")
    return row[name].strip()


def _id(value: Any) -> str:
    """An id as text: `3`, `"3"`, `3.0` and `"03"` are one."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str("" if value is None else value)
    text = text.strip()
    return str(int(text)) if text.isdecimal() and len(text) <= LONGEST else text


# --- the release's folder ---------------------------------------------------------------------------------------------


def _release(root: Path, data: Path) -> Iterator[tuple[Any, ImageOf]]:
    try:
        content = json.loads(data.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{data} cannot be read as JSON: {error}") from None
    if not isinstance(content, list):
        raise ValueError(f"{data} holds no list of objects")
    tops = [base / place for base in dict.fromkeys((root, data.parent)) for place in _IMAGES]
    folders = ImageFolders(*(top for top in tops if (top / "counterfactual").is_dir() or (top / "factual").is_dir()))
    for row in content:
        yield row, partial(_on_disk, folders, row)


def _on_disk(folders: ImageFolders, row: dict[str, Any], kind: str, number: str) -> str:
    """The image in the folder whose name begins with the context's id: the rest of a long name may be cut off."""
    row_id, concept = _id(row["context_id"]), _text(row, "concept")
    if concept in (".", "..") or "/" in concept or "\\" in concept:
        raise ValueError(f"its concept {concept[:200]!r} leads out of the data's folder")
    names = {
        each.name
        for top in folders.folders
        if os.path.isdir(top / kind / concept)
        for each in (top / kind / concept).iterdir()
        if _id(each.name.split("_")[0]) == row_id
    }
    wanted = f"{row_id}_{row.get('factual_context' if kind == 'factual' else 'context')}"
    problem = f"there is no folder of context {row_id}"
    for name in sorted(names, key=lambda name: (-len(os.path.commonprefix([name, wanted])), name)):
        try:
            return folders.find(f"{kind}/{concept}/{name}/{number}")
        except ValueError as error:
            if "leads out" in str(error):
                raise
            problem = str(error)
    raise ValueError(f"its {kind} image {number} of context {row_id} is missing: {problem}")


# --- the parquet mirrors ----------------------------------------------------------------------------------------------


def _mirror(files: list[Path]) -> Iterator[tuple[Any, ImageOf]]:
    """Rows by item; each image is looked at while its row is in hand, and known by its place from then on."""
    by_item: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        for place, row in parquet_rows(file):
            if isinstance(row, Exception) and place == "row 0":
                raise ValueError(f"{file} cannot be read as parquet: {row}")
            if isinstance(row, Exception):
                yield row, lambda kind, number: None
            elif "factual_image" in row:
                yield _by_item(row)
            elif "image_type" in row:
                by_item[_id(row.get("global_id"))].append(row | {"image": _image(row.get("image")), "_n": _number(row)})
            else:
                shown = ", ".join(map(str, row))[:300]
                raise ValueError(
                    f"{file} ({place}) is no mirror of VLind-Bench: it has columns {shown}. Wanted: image_type and "
                    "image, or factual_image and cf_image_0, cf_image_1 ..."
                )
    for images in by_item.values():
        yield images[0], partial(_by_image, images)


def _image(cell: Any) -> Any:
    """Where an image lies; an error where it is missing, or a white pixel stands in its place."""
    try:
        content = cell.get("bytes") if isinstance(cell, dict) else cell
        if isinstance(content, bytes) and check_image(content, "its image") == (1, 1):
            raise ValueError("a single pixel stands in its place")
        return image_of(cell, ImageFolders(), "its image")
    except ValueError as error:
        return error


def _by_item(row: dict[str, Any]) -> tuple[dict[str, Any], ImageOf]:
    images = {name: _image(row[name]) for name in row if name == "factual_image" or name.startswith("cf_image_")}

    def find(kind: str, number: str) -> Any:
        name = "factual_image" if kind == "factual" else f"cf_image_{number}"
        image = images.get(name, ValueError(f"there is no {name}"))
        if isinstance(image, ValueError):
            raise ValueError(f"its {kind} image {number} is missing: {image}")
        return image

    return {name: value for name, value in row.items() if name not in images}, find


def _by_image(images: list[dict[str, Any]], kind: str, number: str) -> Any:
    of_kind = [row for row in images if row.get("image_type") == kind]
    exact = [row for row in of_kind if row["_n"] == number]
    if not (exact or (of_kind and kind == "factual") or (len(of_kind) == 1 and _is_best(of_kind[0]))):
        there = ", ".join(row["_n"] or "one without a number" for row in of_kind)
        raise ValueError(f"its {kind} image {number} is missing (there: {there or 'none'})")
    image = (exact or of_kind)[0]["image"]
    if isinstance(image, ValueError):
        raise ValueError(f"its {kind} image {number} is missing: {image}")
    return image


def _is_best(row: dict[str, Any]) -> bool:
    """Whether the only counterfactual image of an item is the best: nothing says that it is another."""
    votes, numbered = "aggregated_human_label_good_images" in row, any(row.get(name) is not None for name in _NUMBER)
    return row["_n"] == "" or not (votes or numbered)


def _number(row: dict[str, Any]) -> str:
    """The number of a row's image: a column of its own, else its file's name."""
    named = next((_id(row[name]) for name in _NUMBER if row.get(name) is not None), "")
    cell = row.get("image")
    stem = Path(str((cell.get("path") if isinstance(cell, dict) else "") or "")).stem
    return named or (_id(stem) if stem.isdecimal() else _id(stem.split("_")[-1]) if stem[-1:].isdecimal() else "")
