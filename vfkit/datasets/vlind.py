"""VLind-Bench as V-FAT items: counterfactual and factual images with a statement true of each (VF 3.1).

Two forms are read. The folder of the original release: `data.json`, a list of objects, and the images

    counterfactual/<concept>/<context_id>_<context>/<0..11>.jpg
    factual/<concept>/<context_id>_<factual_context>/0.jpg

in the folder itself, `images/`, `data/`, `data/images/` or `VLind-Bench Dataset/images/`. And the parquet mirror: one
row per image, `image_type` being `factual` or `counterfactual`.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from vfkit import prompts
from vfkit.datasets.base import DatasetUnavailable, RowError, Rows
from vfkit.datasets.vfat_items import IMAGE_TYPES, Item, gap, inside, rows, why
from vfkit.sample import Sample

CATEGORIES = {
    **dict.fromkeys(("history", "time"), "Temporal"),
    **dict.fromkeys(("color", "size", "weight"), "Physical"),
    **dict.fromkeys(("climate", "habitat", "landmark", "location"), "Environment"),
    "diet": "Biological",
    "folklore": "Functional",
}
GOOD_VOTES = 2  # people who found an image good: fewer, and it is not used
LONGEST = 100  # characters of an id; longer ones are none, and Python refuses to read numbers of thousands of digits
MISSING = (
    "vlind needs path=: the folder of VLind-Bench (data.json and images), or its parquet mirror. A notebook takes "
    "`-p dataset_path FOLDER`. Without it, try mini_vfat."
)
_DATA = ("", "data", "VLind-Bench Dataset", "data/VLind-Bench Dataset")
_IMAGES = ("", "images", "data", "data/images", "VLind-Bench Dataset/images", "VLind-Bench Dataset")
_NUMBER = ("image_id", "img_id", "image_index", "img_index", "image_number")  # of an image in a mirror's row


def load(path: str | Path | None = None, order_seed: int = 0, n_items: int | None = None, item_seed: int = 0) -> Rows:
    """V-FAT samples of VLind-Bench, six an item (`<global_id>/<level>/<format>`).

    The counterfactual image is the one VLind names best, if two people or more found it good, else the one that most
    did; `meta["image"]` says which. An item without a good image, or with one of its two images missing, is left out
    whole, as one error row, so that levels and formats stay comparable.

    Args:
        path: the folder of the release, or a parquet file or a folder with some.
        order_seed: of the options' order.
        n_items: how many items; None takes all (the release has 302).
        item_seed: of their choice.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: neither form is there.
        ValueError: a file that is not what its name says.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    root = Path(path)
    parquet = (
        [root] if root.suffix == ".parquet" else sorted(root.glob("*.parquet")) + sorted(root.glob("data/*.parquet"))
    )
    found = next((root / place / "data.json" for place in _DATA if (root / place / "data.json").is_file()), None)
    if found is None and not (parquet and parquet[0].is_file()):
        raise FileNotFoundError(f"no VLind-Bench in {root}: there is neither data.json nor a parquet file")
    records, finish = _mirror(parquet) if found is None else (_release(root, found), lambda sample: sample)

    items, errors = [], []
    for number, (row, image_of) in enumerate(records):
        id = _id(row.get("global_id")) if isinstance(row, dict) else ""
        try:
            items.append(_item(id, row, image_of))
        except (ValueError, TypeError, KeyError, OSError, OverflowError, RecursionError) as error:
            errors.append(RowError(id[:LONGEST] or f"row {number}", why(error)))
    made = rows(items, errors, order_seed, n_items, item_seed)
    made.finish = finish
    return made


ImageOf = Callable[[str, str], Any]  # (kind, number) -> an image, or a ValueError that says why not


def _item(id: str, row: dict[str, Any], image_of: ImageOf) -> Item:
    if not id:
        raise ValueError(f"the row has no global_id: {str(row)[:200]}")
    if len(id) > LONGEST:
        raise ValueError(f"its global_id has {len(id):,} characters")
    true, false = _text(row, "true_statement"), _text(row, "false_statement")
    concept, number = _text(row, "concept"), _good_image(row)
    filled = gap(true, false)
    if filled:
        sentence, shown, usual = filled
        asks = dict(open_question=prompts.FILL_GAP.format(sentence=sentence), aliases=(shown,), trap_aliases=(usual,))
    else:
        subject = str(row.get("existent_noun") or concept)
        asks = dict(open_question=prompts.IN_ONE_SENTENCE.format(subject=subject))
    return Item(
        id=id, category=CATEGORIES.get(concept.casefold(), concept), truth=true, trap=false,
        atypical=image_of("counterfactual", number), ordinary=image_of("factual", "0"),
        question=prompts.WHICH_STATEMENT, **asks,
        meta={"source": "vlind", "concept": concept, "context_id": _id(row.get("context_id")), "image": number},
    )  # fmt: skip


def _good_image(row: dict[str, Any]) -> str:
    votes = row["aggregated_human_label_good_images"] or {}
    votes = json.loads(votes) if isinstance(votes, str) else votes
    pairs = votes.items() if isinstance(votes, dict) else votes
    good = {_id(image): int(n) for image, n in pairs if n is not None and int(n) >= GOOD_VOTES}  # maps may be padded
    if not good:
        raise ValueError(f"none of its counterfactual images has {GOOD_VOTES} votes: {votes}")
    best = _id(row.get("best_img_id"))
    return best if best in good else min(good, key=lambda image: (-good[image], len(image), image))


def _text(row: dict[str, Any], name: str) -> str:
    if not isinstance(row[name], str) or not row[name].strip():
        raise ValueError(f"its {name} is {row[name]!r}")
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
    tops = [top for top in tops if (top / "counterfactual").is_dir() or (top / "factual").is_dir()]
    for row in content:
        yield row, lambda kind, number, row=row: _on_disk(tops, row, kind, number)


def _on_disk(tops: list[Path], row: dict[str, Any], kind: str, number: str) -> str:
    """The image in the folder whose name begins with the context's id: the rest of a long name may be cut off."""
    id, concept = _id(row["context_id"]), _text(row, "concept")
    looked = [inside(top, f"{kind}/{concept}") for top in tops]
    folders = [
        each for folder in looked if os.path.isdir(folder) for each in sorted(folder.iterdir())
        if each.is_dir() and _id(each.name.split("_")[0]) == id
    ]  # fmt: skip
    wanted = f"{id}_{row.get('factual_context' if kind == 'factual' else 'context')}"
    folders.sort(key=lambda folder: -len(os.path.commonprefix([folder.name, wanted])))
    files = [inside(folder, f"{number}{suffix}") for folder in folders for suffix in IMAGE_TYPES]
    if file := next(filter(os.path.isfile, files), None):
        return str(file)
    where = " or ".join(map(str, folders or looked)) or "no folder of images at all"
    raise ValueError(f"its {kind} image {number} of context {id} is missing ({where})")


# --- the parquet mirror -----------------------------------------------------------------------------------------------


def _mirror(files: list[Path]) -> tuple[Iterator[tuple[dict[str, Any], ImageOf]], Callable[[Sample], Sample]]:
    """Rows by item, with places of images for images; `finish` opens those that were chosen, each file once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        try:
            names = pq.ParquetFile(file).schema_arrow.names
            paths = ["image.path"] if "image" in names else []
            found = pq.ParquetFile(file).read(columns=[name for name in names if name != "image"] + paths).to_pylist()
        except (pa.ArrowException, ValueError, OSError) as error:  # ValueError: a text that is not UTF-8
            raise ValueError(f"{file} cannot be read as parquet: {error}") from None
        for at, row in enumerate(found):
            grouped[_id(row.get("global_id"))].append(row | {"_at": _Place(file, at)})
    return _grouped(grouped), _opener()


class _Place(str):
    """Where a mirror's image lies, until it is read."""

    def __new__(cls, file: Path, at: int):
        place = super().__new__(cls, f"{file}#{at}")
        place.file, place.at = file, at
        return place


def _grouped(grouped: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[dict[str, Any], ImageOf]]:
    for images in grouped.values():
        yield images[0], lambda kind, number, images=images: _in_mirror(images, kind, number)


def _in_mirror(images: list[dict[str, Any]], kind: str, number: str) -> _Place:
    of_kind = [row for row in images if row.get("image_type") == kind]
    exact = [row for row in of_kind if _number(row) == number]
    if exact or (len(of_kind) == 1 and _number(of_kind[0]) in ("", number)) or (of_kind and kind == "factual"):
        return (exact or of_kind)[0]["_at"]
    there = ", ".join(_number(row) or "one without a number" for row in of_kind)
    raise ValueError(f"its {kind} image {number} is missing (there: {there or 'none'})")


def _number(row: dict[str, Any]) -> str:
    """The number of a row's image: a column of its own, else its file's name."""
    named = next((_id(row[name]) for name in _NUMBER if row.get(name) is not None), "")
    stem = Path(str((row.get("image") or {}).get("path") or "")).stem
    return named or (_id(stem) if stem.isdecimal() else _id(stem.split("_")[-1]) if stem[-1:].isdecimal() else "")


def _opener() -> Callable[[Sample], Sample]:
    import pyarrow.parquet as pq

    @lru_cache(8)
    def group(file: Path, number: int) -> Any:
        return pq.ParquetFile(file).read_row_group(number, columns=["image"])["image"]

    @cache  # three samples share an image
    def content(place: _Place) -> bytes | None:
        ends = np.cumsum(_sizes(place.file))
        number = int(np.searchsorted(ends, place.at, side="right"))
        image = group(place.file, number)[place.at - ends[number]].as_py()  # counted from the group's end
        return image.get("bytes") if isinstance(image, dict) else image

    def finish(sample: Sample) -> Sample:
        (place,) = sample.images
        if not content(place):
            raise ValueError(f"row {place.at} of {place.file.name} holds no image")
        return replace(sample, images=(content(place),))

    return finish


@cache
def _sizes(file: Path) -> list[int]:
    """Rows in each group of a parquet file."""
    import pyarrow.parquet as pq

    meta = pq.ParquetFile(file).metadata
    return [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
