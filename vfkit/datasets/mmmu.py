"""MMMU: college exam questions about one to seven images, in the parquet files of the hub's `MMMU/MMMU`.

One file per subject and split, such as `Accounting/validation-00000-of-00001.parquet`. Its columns, as far as they
are read:

| column | holds |
|---|---|
| `id` | `validation_Accounting_1` |
| `question` | text with marks `<image 1>` ... where images stand |
| `options` | a Python list of texts, written as a text; an empty one marks an open question |
| `answer` | the option's letter (its text and its index from 0 are taken too) |
| `image_1` ... `image_7` | `{bytes, path}`, or null |
| `subfield` | kept in `meta`, as is `id` |

Marks are renumbered so that images come in the order in which the question first mentions them; those it does not
mention follow. A mark in an option stays text, under the new number of the image it names.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit import hub
from vfkit.datasets.base import DatasetUnavailable, Rows, unknown
from vfkit.datasets.files import ImageFolders, answer_index, collect, embedded, field, matching, parquet_rows, sound
from vfkit.sample import Sample

REPO = "MMMU/MMMU"
SUBJECTS = (
    *("Accounting", "Agriculture", "Architecture_and_Engineering", "Art", "Art_Theory", "Basic_Medical_Science"),
    *("Biology", "Chemistry", "Clinical_Medicine", "Computer_Science", "Design"),
    *("Diagnostics_and_Laboratory_Medicine", "Economics", "Electronics", "Energy_and_Power", "Finance", "Geography"),
    *("History", "Literature", "Manage", "Marketing", "Materials", "Math", "Mechanical_Engineering", "Music"),
    *("Pharmacy", "Physics", "Psychology", "Public_Health", "Sociology"),
)
SPLITS = ("validation", "dev")  # the answers of `test` are not public
MARK = re.compile(r"<image (\d+)>")
OTHERWISE = (
    f"To have it: on a machine with network run `hf download {REPO} --repo-type dataset --include '*/validation-*' "
    "--local-dir MMMU`, copy the folder here and give it as path (in a notebook: `-p dataset_path FOLDER`)."
)


def load(path: str | Path | None = None, split: str = "validation") -> Rows:
    """Multiple-choice questions of MMMU (see above); a sample's id is `mmmu/<id>`, its category the subject.

    Open questions, which have no options, are left out with an error row each.

    Args:
        path: a parquet file, or a folder with the files of some or all subjects; None takes the hub's.
        split: `validation` (900 questions) or `dev` (150).

    Raises:
        ValueError: unknown split.
        FileNotFoundError: there is nothing at `path`, or some of the parts of a file are missing.
        DatasetUnavailable: no path, and the hub cannot give the files.
    """
    if split not in SPLITS:
        raise unknown("split of mmmu", split, SPLITS)
    if path is None:
        needs = [f"{subject}/{split}-*.parquet" for subject in SUBJECTS]
        called = f"data set 'mmmu' (hub id {REPO})"
        path = hub.fetch(REPO, needs, called, OTHERWISE, DatasetUnavailable, kind="dataset", needs=needs)
    return collect(_rows(matching(path, f"**/{split}-*.parquet", f"**/*{split}*.parquet")), _sample)


def _rows(files: list[Path]) -> Iterator[tuple[str, Any]]:
    for file in files:
        folders = ImageFolders(file.parent, file.parent / "images")
        for number, row in enumerate(parquet_rows(file)):
            place = f"{file.parent.name}/{file.stem}/row {number}"
            if isinstance(row, Exception):
                yield f"mmmu/{place}", row
            else:
                yield f"mmmu/{row.get('id') or place}", row | {"folders": folders, "file": file}


def _sample(id: str, row: dict) -> Sample:
    name, options = field(row, "id"), _options(row.get("options"))
    if not options or row.get("question_type") == "open":
        raise ValueError("it is an open question, without options to choose from")
    images = {}
    for k in range(1, 8):
        if (cell := row.get(f"image_{k}")) is not None:
            images[k] = embedded(cell, row["folders"], f"its image {k}")
    question, order = in_turn(field(row, "question"), list(images))
    numbers = {old: new for new, old in enumerate(order, 1)}
    return Sample(
        id,
        tuple(images[k] for k in order),
        question,
        tuple(renumber(option, numbers) for option in options),
        answer_index(field(row, "answer"), options),
        category=_subject(name, row["file"]),
        meta={"id": name, "subfield": row.get("subfield") or ""},
    )


def in_turn(question: str, images: list[int]) -> tuple[str, list[int]]:
    """The question with its marks renumbered in order of first mention, and the old numbers in the new order.

    Args:
        question: text with marks `<image k>`.
        images: the numbers of the images there are.

    Raises:
        ValueError: there are none, or a mark names one that is not there.
    """
    if not images:
        raise ValueError("it has no image")
    mentioned = list(dict.fromkeys(int(number) for number in MARK.findall(question)))
    for number in mentioned:
        if number not in images:
            raise ValueError(f"its question marks <image {number}>, which it lacks")
    order = mentioned + [number for number in images if number not in mentioned]
    return renumber(question, {old: new for new, old in enumerate(order, 1)}), order


def renumber(text: str, numbers: dict[int, int]) -> str:
    """The text with its marks' numbers replaced; marks of images that are not there stay."""
    return MARK.sub(lambda mark: f"<image {numbers.get(int(mark[1]), mark[1])}>", text)


def _options(value: Any) -> list[str]:
    """The options of a cell: a list of texts, or a text that holds one in Python's notation."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip() or "[]")
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise ValueError(f"its options are no list: {value[:200]!r}") from None
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError(f"its options are no list of texts: {str(value)[:200]}")
    return [sound(one, "options") for one in value]


def _subject(id: str, file: Path) -> str:
    """By the id, which holds it wherever the file lies, else by the folder."""
    found = re.fullmatch(r"(?:validation|dev|test)_(.+)_\d+", id)
    return found[1] if found else file.parent.name
