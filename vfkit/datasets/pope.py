"""POPE: is there such an object in the image? Questions about COCO images, half of them about what is not there.

Three forms are read, told apart by what a file begins with: JSON lines (as published in RUCAIBox/POPE, such as
`coco_pope_adversarial.json`), a JSON list of the same rows, and parquet (the hub's `lmms-lab/POPE`). A row holds

| field | holds |
|---|---|
| `question_id` (or `id`) | the question's number within its split |
| `text` (or `question`) | the question |
| `label` (or `answer`) | yes or no, in any case |
| `image` | the image's name, looked up in the data's folder, `images` and `val2014`; in parquet `{bytes, path}` |
| `category` | the split: random, popular or adversarial; where rows do not say, the file's name does |
| `image_source`, `object` | optional; the object is else read from the question |

A folder with two sets of labels for one split, such as POPE's and RePOPE's, is refused: give one file, or keep them in
two folders. Labels of a file that is named `repope` say so in `meta["labels"]`. Images in parquet are not held: each is
read again from its place whenever it is opened.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit import hub
from vfkit.datasets.base import DatasetUnavailable, Rows, digest
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.rows import read_rows
from vfkit.datasets.samples import collect, field
from vfkit.names import unknown
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
        ValueError: unknown split, a file whose split nothing tells, or two sets of labels for one split.
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
    if folder.is_dir():
        _check_labels(folder, files, split)
    folder = folder if folder.is_dir() else folder.parent
    folders = ImageFolders(images, folder, folder / "images", folder / "val2014")
    pool: dict[str, Any] = {}  # images by content: a parquet file repeats each for all its questions
    return collect(_rows(files, split), lambda row_id, row: _sample(row_id, row, folders, pool))


def _check_labels(folder: Path, chosen: list[Path], wanted: str) -> None:
    """Refuse a folder that holds a second set of labels for a split that is read.

    Raises:
        ValueError: names the two files.
    """
    by_split: dict[str, list[tuple[str, Path]]] = {split: [] for split in SPLITS}
    for file in [*chosen, *sorted(set(folder.glob("**/*pope*.json*")) - set(chosen))]:
        source, _, _ = file.stem.lower().partition("repope" if "repope" in file.stem.lower() else "pope")
        for split in SPLITS:
            if split not in file.stem.lower() or wanted not in ("all", split):
                continue
            for other_source, other in by_split[split]:
                alike = source == other_source or not source or not other_source
                if alike and other.read_bytes() != file.read_bytes():
                    names = " and ".join(str(one.relative_to(folder)) for one in (other, file))
                    raise ValueError(
                        f"{folder} holds two label sets for the split {split}, {names}: give the file that is meant "
                        "as path"
                    )
            by_split[split].append((source, file))


def _rows(files: list[Path], wanted: str) -> Iterator[tuple[str, Any]]:
    """Rows of the wanted split, each with its split and set of labels, named by split and the question's number."""
    for file in files:
        stem = file.stem.lower()
        named = [name for name in SPLITS if name in stem]
        labels = "RePOPE" if "repope" in stem else "POPE"
        for place, row in read_rows(file):
            place = f"pope/{file.stem}/{place}"
            if isinstance(row, Exception):
                yield place, row
                continue
            split = str(row.get("category") or (named[0] if len(named) == 1 else wanted)).strip().lower()
            if split == "all":
                raise ValueError(f"{file}: nothing tells its split; give split= ({', '.join(SPLITS)})")
            if split not in SPLITS:
                yield place, ValueError(f"its category {split!r} is none of {', '.join(SPLITS)}")
            elif wanted in ("all", split):
                row_id = next((row[name] for name in ("question_id", "id") if row.get(name) is not None), None)
                labelled = row | {"category": split, "labels": labels}
                yield place if row_id is None else f"pope/{split}/{row_id}", labelled


def _sample(row_id: str, row: dict, folders: ImageFolders, pool: dict[str, Any]) -> Sample:
    number, question = field(row, "question_id", "id"), field(row, "text", "question")
    label = field(row, "label", "answer").strip().lower()
    if label not in ("yes", "no"):
        raise ValueError(f"its label {label[:200]!r} is neither yes nor no")
    cell = row.get("image")
    image = image_of(cell, folders, "its image")
    image = pool.setdefault(digest(image, str), image)
    inside = cell.get("path") if isinstance(cell, dict) else None
    names = (cell if isinstance(cell, str) else None, row.get("image_source"), inside)
    name = next((name for name in names if isinstance(name, str) and name), "")  # anything else names no image
    meta = {"question_id": number, "object": row.get("object") or object_of(question), "image": _stem(name)}
    if row["labels"] != "POPE":
        meta["labels"] = row["labels"]
    right, category = int(label == "no"), row["category"]
    return Sample(row_id, (image,), question, ("Yes", "No"), right, category=category, prompt="yes_no", meta=meta)


def object_of(question: str) -> str:
    """What a question asks for: "dining table" of "Is there a dining table in the image?"; "" of another form."""
    asked = OBJECT.search(question)
    return asked[1] if asked else ""


def _stem(name: str) -> str:
    """An image's name, the same with and without the end that tells its format."""
    return re.sub(r"\.(jpe?g|png|webp)$", "", name, flags=re.IGNORECASE)
