"""POPE: is there such an object in the image? Questions about COCO images, half of them about what is not there.

Three forms are read, told apart by what a file begins with: JSON lines (as published: `coco_pope_adversarial.json`), a
JSON list of the same rows, and parquet (the hub's `lmms-lab/POPE`). A row holds

| field | holds |
|---|---|
| `question_id` (or `id`) | the question's number within its split |
| `text` (or `question`) | the question |
| `label` (or `answer`) | yes or no, in any case |
| `image` | the image's name, looked up in the data's folder; in parquet `{bytes, path}` |
| `category` | the split: random, popular or adversarial; where rows do not say, the file's name does |
| `image_source`, `object` | optional; the object is else read from the question |
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit import hub
from vfkit.datasets.base import DatasetUnavailable, Rows, unknown
from vfkit.datasets.files import ImageFolders, collect, embedded, field, matching, parquet_rows
from vfkit.sample import Sample

REPO = "lmms-lab/POPE"
SPLITS = ("adversarial", "popular", "random")
OBJECT = re.compile(r"\b(?:is|are) there (?:(?:an?|any|some|the)\s+)?(.+?)\s+(?:in|on) th(?:e|is)\b", re.IGNORECASE)
OTHERWISE = (
    f"To have it: on a machine with network run `hf download {REPO} --repo-type dataset --include 'data/*' "
    "--local-dir POPE`, copy the folder here and give it as path (in a notebook: `-p dataset_path FOLDER`); or give a "
    "folder that holds coco_pope_adversarial.json and, in val2014, COCO's images."
)


def load(path: str | Path | None = None, split: str = "all", images: str | Path | None = None) -> Rows:
    """Rows of POPE (see above); a sample's id is `pope/<split>/<question_id>`, its category the split.

    Args:
        path: a file, or a folder with such files: those called `coco_pope_*` go first, then any `*pope*`, then
            parquet. None takes the hub's (9,000 questions on 500 images).
        split: `adversarial`, `popular`, `random` or `all`; one is needed where neither rows nor file name say it.
        images: a folder to look for images in, before the data's own and `images` and `val2014` in it.

    Raises:
        ValueError: unknown split, or a file whose split nothing tells.
        FileNotFoundError: there is nothing at `path`, or some of the parts of a file are missing.
        DatasetUnavailable: no path, and the hub cannot give the files.
    """
    if split not in (*SPLITS, "all"):
        raise unknown("split of pope", split, (*SPLITS, "all"))
    if path is None:
        needs, called = ["data/test-*.parquet"], f"data set 'pope' (hub id {REPO})"
        path = hub.fetch(REPO, needs, called, OTHERWISE, DatasetUnavailable, kind="dataset", needs=needs)
    folder = Path(path).expanduser()
    files = matching(folder, "**/coco_pope_*.json*", "**/*pope*.json*", "data/*.parquet", "**/*.parquet")
    folder = folder if folder.is_dir() else folder.parent
    folders = ImageFolders(images, folder, folder / "images", folder / "val2014")
    pool: dict[str, bytes] = {}  # images by content: a parquet file repeats each for all its questions
    return collect(_rows(files, split), lambda id, row: _sample(id, row, folders, pool))


def _rows(files: list[Path], wanted: str) -> Iterator[tuple[str, Any]]:
    """Rows of the wanted split, each with its split, named by it and the question's number."""
    for file in files:
        named = [name for name in SPLITS if name in file.stem.lower()]
        for number, row in enumerate(_read(file)):
            place = f"pope/{file.stem}/row {number}"
            if isinstance(row, Exception) or not isinstance(row, dict):
                yield place, row if isinstance(row, Exception) else ValueError(f"it is no object: {row!r}")
                continue
            split = str(row.get("category") or (named[0] if len(named) == 1 else wanted)).strip().lower()
            if split == "all":
                raise ValueError(f"{file}: nothing tells its split; give split= ({', '.join(SPLITS)})")
            if split not in SPLITS:
                yield place, ValueError(f"its category {split!r} is none of {', '.join(SPLITS)}")
            elif wanted in ("all", split):
                id = next((row[name] for name in ("question_id", "id") if row.get(name) is not None), None)
                yield place if id is None else f"pope/{split}/{id}", row | {"category": split}


def _sample(id: str, row: dict, folders: ImageFolders, pool: dict[str, bytes]) -> Sample:
    number, question = field(row, "question_id", "id"), field(row, "text", "question")
    label = field(row, "label", "answer").strip().lower()
    if label not in ("yes", "no"):
        raise ValueError(f"its label {label!r} is neither yes nor no")
    cell = row.get("image")
    if isinstance(cell, str):
        image = folders.find(cell)
        name = cell
    else:
        image = embedded(cell, folders, "its image")
        names = (row.get("image_source"), cell.get("path") if isinstance(cell, dict) else None)
        name = next((name for name in names if isinstance(name, str) and name), "")  # anything else names no image
    if isinstance(image, bytes):
        image = pool.setdefault(hashlib.sha256(image).hexdigest(), image)
    return Sample(
        id, (image,), question, ("Yes", "No"), int(label == "no"), category=row["category"], prompt="yes_no",
        meta={"question_id": number, "object": row.get("object") or object_of(question), "image": _stem(name)},
    )  # fmt: skip


def object_of(question: str) -> str:
    """What a question asks for: "dining table" of "Is there a dining table in the image?"; "" of another form."""
    found = OBJECT.search(question)
    return found[1] if found else ""


# --- the forms --------------------------------------------------------------------------------------------------------


def _read(file: Path) -> Iterator[Any]:
    """The rows of a file in any of the forms, and an exception in place of each that is damaged."""
    with file.open("rb") as opened:
        start = opened.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return parquet_rows(file)
    return _json_list(file) if start.startswith(b"[") else _json_lines(file)


def _json_lines(file: Path) -> Iterator[Any]:
    with file.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if line.strip():
                try:
                    yield json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError) as error:
                    yield ValueError(f"line {number} is not JSON: {error}")


def _json_list(file: Path) -> Iterator[Any]:
    """Row after row, since rows after a damaged one can still be read: rows hold no objects, so `{` begins one."""
    text, decoder = file.read_text(encoding="utf-8-sig", errors="surrogateescape"), json.JSONDecoder()
    end, sound = 0, True  # of the row before; after a damaged one what lies between is its rest
    while (at := text.find("{", end)) >= 0:
        if sound and (between := text[end:at].strip("[], \t\r\n")):
            yield ValueError(f"{between[:80]!r} stands where a row should be")
        try:
            row, end = decoder.raw_decode(text, at)
            sound = True
            yield row
        except (ValueError, RecursionError) as error:
            if sound or isinstance(error, ValueError):  # what is nested too deep fails anew at every level
                yield ValueError(f"line {text.count(chr(10), 0, at) + 1} holds no sound row: {error}")
            end, sound = at + 1, False
    if not text.rstrip().endswith("]"):
        yield ValueError("the list does not end, so rows may be lost")


def _stem(name: str) -> str:
    """An image's name, the same with and without the end that tells its format."""
    return re.sub(r"\.(jpe?g|png|webp)$", "", name, flags=re.IGNORECASE)
