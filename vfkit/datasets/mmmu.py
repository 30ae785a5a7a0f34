"""MMMU and MMMU-Pro: college exam questions about one to seven images, in the parquet files of the hub.

`MMMU/MMMU` has one file per subject and split, such as `Accounting/validation-00000-of-00001.parquet`; `MMMU/MMMU_Pro`
one folder per form, of which `standard (10 options)` and `standard (4 options)` are read (`vision` holds its questions
within the images, and is refused). Columns, as far as they are read:

| column | holds |
|---|---|
| `id` | `validation_Accounting_1`, in MMMU-Pro `test_History_1` |
| `question` | text with marks `<image 1>` ... where images stand |
| `options` | a Python list of texts, written as a text; an empty one marks an open question |
| `answer` | the option's letter (its text and its index from 0 are taken too) |
| `image_1` ... `image_7` | `{bytes, path}`, or null |
| `subject` | the category; where there is none, the id holds it |
| `subfield` | kept in `meta`, as is `id` |

Images stand at their marks, each in its own place; those that the question does not mark follow it. They come in the
order in which they stand, and marks are renumbered by it: of two images, with only `<image 2>` marked, the second is
`<image 1>` at its mark, and the first follows the question. A mark in an option stays text, under the new number of the
image it names. Images are not held: each is read again from its place whenever it is opened.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit import hub
from vfkit.datasets.base import DatasetUnavailable, Rows
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.rows import parquet_rows
from vfkit.datasets.samples import Asked, collect_choices, field, listed
from vfkit.names import unknown
from vfkit.sample import Sample

REPO = "MMMU/MMMU"
SUBJECTS = (
    *("Accounting", "Agriculture", "Architecture_and_Engineering", "Art", "Art_Theory", "Basic_Medical_Science"),
    *("Biology", "Chemistry", "Clinical_Medicine", "Computer_Science", "Design"),
    *("Diagnostics_and_Laboratory_Medicine", "Economics", "Electronics", "Energy_and_Power", "Finance", "Geography"),
    *("History", "Literature", "Manage", "Marketing", "Materials", "Math", "Mechanical_Engineering", "Music"),
    *("Pharmacy", "Physics", "Psychology", "Public_Health", "Sociology"),
)
SPLITS = ("validation", "dev")  # the answers of MMMU's `test` are not public; MMMU-Pro has only that split
PRO = ("standard (10 options)", "standard (4 options)")
MARK = re.compile(r"<image (\d+)>")
OTHERWISE = (
    f"To have it: on a machine with network run `hf download {REPO} --repo-type dataset --include '*/validation-*' "
    "--local-dir MMMU`, copy the folder here and give it as path (in a notebook: `-p dataset_path FOLDER`)."
)


def load(path: str | Path | None = None, split: str = "validation") -> Rows:
    """Multiple-choice questions of MMMU or MMMU-Pro; a sample's id is `mmmu/<id>`, its category the subject.

    Open questions, which have no options, are left out with an error row each.

    Args:
        path: a parquet file, or a folder with the files of some or all subjects, or of MMMU-Pro, whose ten options go
            before its four; None takes MMMU of the hub.
        split: `validation` (900 questions) or `dev` (150) of MMMU.

    Raises:
        ValueError: unknown split, or files with questions inside the images.
        FileNotFoundError: there is nothing at `path`, or some of the parts of a file are missing.
        DatasetUnavailable: no path, and the hub cannot give the files.
    """
    if split not in SPLITS:
        raise unknown("split of mmmu", split, SPLITS)
    if path is None:
        needs = [f"{subject}/{split}-*.parquet" for subject in SUBJECTS]
        called = f"data set 'mmmu' (hub id {REPO})"
        path = hub.fetch(REPO, needs, called, OTHERWISE, DatasetUnavailable, kind="dataset", needs=needs)
    patterns = [f"**/{split}-*.parquet", f"**/*{split}*.parquet"]
    patterns += [f"**/{folder}/*.parquet" for folder in PRO] + ["**/test-*.parquet"]
    rows = Rows([])
    for file in matching(path, *patterns):  # each has its own way of giving answers
        part = collect_choices(_rows(file), lambda row_id, row: _sample(row_id, row))
        rows.samples += part.samples
        rows.errors += part.errors
    return rows


def _rows(file: Path) -> Iterator[tuple[str, Any]]:
    folders = ImageFolders(file.parent, file.parent / "images")
    for place, row in parquet_rows(file):
        place = f"mmmu/{file.parent.name}/{file.stem}/{place}"
        if isinstance(row, Exception):
            yield place, row
            continue
        if "image_1" not in row:
            raise ValueError(
                f"{file} is no file of multiple choice as mmmu reads it: no column image_1 in {', '.join(row)}. "
                f"Wanted: MMMU's files by subject, or MMMU-Pro's {' or '.join(PRO)}"
            )
        yield f"mmmu/{row.get('id') or place.removeprefix('mmmu/')}", row | {"folders": folders, "file": file}


def _sample(row_id: str, row: dict) -> Asked:
    name, options = field(row, "id"), listed(row.get("options"), "options")
    if not options or row.get("question_type") == "open":
        raise ValueError("it is an open question, without options to choose from")
    images = {}
    for k in range(1, 8):
        if (cell := row.get(f"image_{k}")) is not None:
            images[k] = image_of(cell, row["folders"], f"its image {k}")
    question, order = in_turn(field(row, "question"), list(images))
    numbers = {old: new for new, old in enumerate(order, 1)}
    answer = field(row, "answer")
    sample = Sample(
        row_id,
        tuple(images[k] for k in order),
        question,
        tuple(renumber(option, numbers) for option in options),
        category=row.get("subject") or _subject(name, row["file"]),
        meta={"id": name, "subfield": row.get("subfield") or ""},
    )
    return sample, answer


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


def _subject(row_id: str, file: Path) -> str:
    """By the id, which holds it wherever the file lies, else by the folder."""
    matched = re.fullmatch(r"(?:validation|dev|test)_(.+)_\d+", row_id)
    return matched[1] if matched else file.parent.name
