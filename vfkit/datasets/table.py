"""One's own questions in a table: TSV, CSV, JSON lines, a JSON list or parquet, called by the name of its file.

One row is one question. Its columns:

| column | holds |
|---|---|
| `question` | the question |
| `image` | a file's name, looked up beside the table and in `images/` there; an image file in base64; in parquet also bytes or `{bytes, path}` |
| `image_path` | instead of `image`: a file's name |
| `image_1`, `image_2` ... or a list `images` | instead of `image`: several, which stand where the question says `<image 1>`, or follow it |
| `A`, `B` ... or a list `options` | the options, of a multiple-choice question; of an open one they are scored but not shown |
| `answer` | optional: the option's letter, its text or its index from 0; yes or no; of an open question the answer itself |
| `type` | optional: `mcq`, `yes_no` or `open`. Without it a row with options is multiple choice, one whose answer is yes or no asks for that word, and any other is open |
| `id` (or `index`) | optional: the row's name, else its place in the file |
| `category`, `hint` | optional |

An open question without options is scored by its answer, and so needs one. Cells are texts and nothing else: an option
that reads "None" is one. Other columns are kept in `meta` of JSON lines and tables as they are, images excepted.
"""  # noqa: E501

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vfkit.datasets.base import DatasetUnavailable, Rows
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.mmmu import in_turn, renumber
from vfkit.datasets.rows import read_rows
from vfkit.datasets.samples import Asked, collect_choices, field, lettered, listed, nan_as_empty, sound
from vfkit.names import unknown
from vfkit.sample import LETTERS, Sample

TYPES = ("mcq", "yes_no", "open")
MISSING = "table needs path=: a TSV, CSV, JSON lines or parquet file of questions (see vfkit.datasets.table)"
_SEVERAL = re.compile(r"image_\d+")
_READ = {"id", "index", "question", "image", "image_path", "images", "options", "answer", "type", "category", "hint"}


def load(path: str | Path | None = None, images: str | Path | None = None) -> Rows:
    """The questions of a table (see above); a sample's id is `<file's name>/<id>`.

    Args:
        path: the file.
        images: a folder to look for images in, before the table's own and `images` in it.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: there is no such file.
        ValueError: it has no column `question`, or none for images.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    if Path(path).expanduser().is_dir():
        raise FileNotFoundError(f"{path} is a folder. {MISSING}")
    (file,) = matching(path)
    folders = ImageFolders(images, file.parent, file.parent / "images")
    rows = nan_as_empty(list(_rows(file, folders)))
    _check_columns(file, [row for _, row in rows if isinstance(row, dict)])
    kind = _usual_type([row for _, row in rows if isinstance(row, dict)])
    made = collect_choices(rows, lambda row_id, row: _asked(row_id, row, kind))
    made.samples = [_answered(sample) for sample in made.samples]
    return made


def _answered(sample: Sample) -> Sample:
    """Of an open question a single option is its answer."""
    return replace(sample, answer=0) if sample.prompt == "open" and len(sample.options) == 1 else sample


def _rows(file: Path, folders: ImageFolders) -> Iterator[tuple[str, Any]]:
    """Rows with their images found, or what is wrong with one in its place: no image is held."""
    for place, row in read_rows(file):
        if isinstance(row, Exception):
            yield f"{file.stem}/{place}", row
            continue
        named = next((row[name] for name in ("id", "index") if row.get(name) not in (None, "")), place)
        cells = {name: row[name] for name in row if name in ("image", "image_path") or _SEVERAL.fullmatch(str(name))}
        if isinstance(row.get("images"), list):
            cells |= {f"image_{k}": cell for k, cell in enumerate(row["images"], 1)}
        pictures: dict[int, Any] = {}
        opened: dict[int, Any] | Exception = pictures
        try:
            for name, cell in cells.items():
                if cell not in (None, ""):
                    if isinstance(cell, Exception):
                        raise cell
                    number = int(name[6:]) if _SEVERAL.fullmatch(name) else 1
                    pictures[number] = image_of(cell, folders, f"its {name}")
        except ValueError as error:
            opened = error
        light = {
            name: value for name, value in row.items() if isinstance(value, str | int | float) or name == "options"
        }
        yield f"{file.stem}/{named}", light | {"_images": opened, "_columns": set(row)}


def _check_columns(file: Path, rows: list[dict[str, Any]]) -> None:
    columns = set().union(*(row["_columns"] for row in rows)) if rows else {"question", "image"}
    lacking = [] if "question" in columns else ["question"]
    if not any(name in ("image", "image_path", "images") or _SEVERAL.fullmatch(str(name)) for name in columns):
        lacking.append("image, image_path, image_1 or images")
    if lacking:
        shown = ", ".join(sorted(map(str, columns)))[:300]
        raise ValueError(
            f"{file} is no table of questions: no column {' and no '.join(lacking)} in {shown}. Wanted: question, an "
            "image; optional A, B ... or options, answer, type, id, category, hint (see vfkit.datasets.table)"
        )


def _usual_type(rows: list[dict[str, Any]]) -> str:
    """What rows ask that have neither options nor an answer: yes or no, if all others without options do."""
    answers = {str(row.get("answer") or "").strip().casefold() for row in rows if not _has_options(row)} - {""}
    return "yes_no" if answers and answers <= {"yes", "no"} else ""


def _has_options(row: dict[str, Any]) -> bool:
    return any(str(row.get(name) or "").strip() for name in ("options", *LETTERS))


def _asked(row_id: str, row: dict[str, Any], usual: str) -> Asked:
    question, answer = field(row, "question"), row.get("answer")
    answer = "" if answer is None or not str(answer).strip() else field(row, "answer")
    options = _options(row)
    kind: Any = str(row.get("type") or "").strip().casefold() or _type(options, answer, usual)
    if kind not in TYPES:
        raise unknown("type", kind, TYPES)
    if kind == "yes_no":
        options, answer = ("Yes", "No"), answer.strip().capitalize()
        if answer not in ("", *options):
            raise ValueError(f"its answer {answer[:200]!r} is neither yes nor no")
    elif kind == "open" and not options:
        if not answer:
            raise ValueError("it is an open question without options or answer, so there is nothing to score")
        options, answer = (answer,), ""
    elif not options:
        raise ValueError("it has no options: A, B ... or a list under options")
    if isinstance(row["_images"], Exception):
        raise row["_images"]
    question, order = in_turn(question, sorted(row["_images"]))
    numbers = {old: new for new, old in enumerate(order, 1)}
    images = tuple(row["_images"][number] for number in order)
    category, hint = (sound(str(row.get(name) or ""), name) for name in ("category", "hint"))
    more = {name: value for name, value in row.items() if not _is_read(name) and value not in (None, "")}
    shown = tuple(renumber(option, numbers) for option in options)
    meta = more | {"id": row_id.partition("/")[2]}
    sample = Sample(row_id, images, question, shown, category=category, hint=hint, prompt=kind, meta=meta)
    return sample, answer


def _is_read(name: Any) -> bool:
    return not isinstance(name, str) or name in _READ or name in LETTERS or name.startswith("_")


def _options(row: dict[str, Any]) -> tuple[str, ...]:
    if any(str(row.get(letter) or "").strip() for letter in LETTERS):
        return lettered(row)
    return tuple(listed(row.get("options"), "options"))


def _type(options: tuple[str, ...], answer: str, usual: str) -> str:
    if options:
        return "yes_no" if [option.strip().casefold() for option in options] == ["yes", "no"] else "mcq"
    return ("yes_no" if answer.strip().casefold() in ("yes", "no") else "open") if answer else usual or "open"
