"""SEEDBench, and any other multiple choice in the TSV form of VLMEvalKit, such as its `SEEDBench_IMG.tsv`.

A tab-separated table with a header, quoted as spreadsheets do (a quote within a quoted cell is doubled, and such a cell
may span lines). Its columns:

| column | holds |
|---|---|
| `index` | the row's own name |
| `image` | an image file in base64; or, in up to 64 characters, the `index` of the row that holds the same image |
| `image_path` | instead of `image`: the image's name, looked up beside `X.tsv`, in `images/` and in `images/X/` there |
| `question` | the question |
| `A`, `B` ... | the options, without a gap; a row may have fewer than there are columns |
| `answer` | the option's letter, its text, or its index from 0 |
| `category`, `hint` | optional |

Cells are texts and nothing else: an option that reads "None" or "NA" is one. The file is never written to, and its
images are not held: each is read again from its place in the file whenever it is opened.
"""

import binascii
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vfkit.datasets.base import DatasetUnavailable, Rows
from vfkit.datasets.files import ImageFolders, answer_index, check_image, collect, field, matching, sound
from vfkit.sample import LETTERS, Sample

MISSING = (
    "seedbench needs path=: the file SEEDBench_IMG.tsv as VLMEvalKit has it (some GB; that toolkit downloads it into "
    "LMUData in the home folder for its data set SEEDBench_IMG), or a folder that holds it. A notebook takes "
    "`-p dataset_path FILE`. Without it, try mini_seed or easy_vqa."
)
COLUMNS = ("index", "question", "A", "answer")
REFERENCE = 64  # characters of the longest `image` that names another row
LONGEST = 2**27  # characters of the longest cell, lest a quote that is never closed fill the memory
csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # of the process, so in every worker that opens a cell


def load(path: str | Path | None = None) -> Rows:
    """Rows of a TSV in VLMEvalKit's form (see above); a sample's id is `seedbench/<index>`.

    Args:
        path: the file, or a folder that holds it. There is no copy of this form on the hub.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: there is nothing at `path`, or several such files and none of the usual name.
        ValueError: the file is no such table: its header lacks columns.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    files = matching(path, "SEEDBench_IMG.tsv", "*.tsv")
    if len(files) > 1:
        raise FileNotFoundError(f"which of {', '.join(file.name for file in files)}? Give the file itself as path")
    folder = files[0].parent
    folders = ImageFolders(folder, folder / "images", folder / "images" / files[0].stem)
    rows = [(_name(line, row), _light(cell, row)) for line, cell, row in read(files[0])]
    held: dict[str, Any] = {}
    for id, row in rows:
        if not isinstance(row, Exception) and not isinstance(row["image"], str):
            held.setdefault(id, row["image"])

    def make(id: str, row: dict) -> Sample:
        letters = [letter for letter in LETTERS if row.get(letter, "").strip()]
        if not letters or letters != list(LETTERS[: len(letters)]):
            raise ValueError(f"its options are {', '.join(letters) or 'empty'}; they must go from A on without a gap")
        index, question, answer = (field(row, name) for name in ("index", "question", "answer"))
        options = tuple(sound(row[letter], f"option {letter}") for letter in letters)
        texts = {name: sound(row.get(name, ""), name) for name in ("category", "hint")}
        image = row["image"]
        if isinstance(image, str) and image.strip():
            if f"seedbench/{image.strip()}" not in held:
                raise ValueError(f"its image {image!r} is neither base64 nor the index of a row that holds one")
            image = held[f"seedbench/{image.strip()}"]
        if isinstance(image, ValueError):
            raise image
        source = image or folders.find(field(row, "image", "image_path"))
        return Sample(id, (source,), question, options, answer_index(answer, options), **texts, meta={"index": index})

    return collect(rows, make)


@dataclass(frozen=True)
class Cell:
    """An image's place in the table; to call it is to read its bytes.

    Args:
        path: the file.
        start, length: of the image's row, in bytes.
        column: its cell in the row.
    """

    path: str
    start: int
    length: int
    column: int

    def __call__(self) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self.start)
            row = file.read(self.length).decode(errors="surrogateescape")
        return decode(next(csv.reader([row], delimiter="\t"))[self.column])

    def __str__(self) -> str:
        return f"at byte {self.start:,} of {os.path.basename(self.path)}"


def decode(image: str) -> bytes:
    """The bytes that a base64 text stands for.

    Raises:
        ValueError: it is not base64, or cut off.
    """
    try:
        return binascii.a2b_base64("".join(image.split()), strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"its image is not sound base64: {error}") from None


def read(file: Path) -> Iterator[tuple[int, Cell | None, dict[str, str] | Exception]]:
    """Line number, place and cells of every row, or what is wrong with it; one row is in memory at a time.

    A row that cannot be read costs its first line alone: reading goes on in the next one.

    Raises:
        ValueError: the header lacks columns.
    """
    with file.open("rb") as opened:
        header = _header(file, opened.readline())
        column = header.index("image") if "image" in header else 0
        lines_before, reader = 1, _reader(opened)
        while True:
            start, line = opened.tell(), lines_before + reader.line_num + 1
            try:
                cells = next(reader, None)
                if cells is None:
                    return
                if cells and len(cells) != len(header):
                    raise ValueError(f"line {line} holds {len(cells)} cells where the header has {len(header)}")
            except (csv.Error, ValueError) as error:
                opened.seek(start)
                opened.readline()
                lines_before, reader = line, _reader(opened)
                yield line, None, ValueError(f"line {line} cannot be read: {error}")
                continue
            if cells:
                place = Cell(str(file.resolve()), start, opened.tell() - start, column)
                yield line, place, dict(zip(header, cells, strict=True))


def _reader(opened):
    lines = (line.decode(errors="surrogateescape") for line in iter(opened.readline, b""))
    return csv.reader(lines, delimiter="\t", strict=True)


def _header(file: Path, line: bytes) -> list[str]:
    try:
        header = next(csv.reader([line.decode("utf-8-sig", errors="replace")], delimiter="\t"), [])
    except csv.Error:
        header = []
    lacking = [name for name in COLUMNS if name not in header]
    if not {"image", "image_path"} & set(header):
        lacking.append("image or image_path")
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        raise ValueError(f"{file} is not a table as seedbench reads it: column {', '.join(doubled)} occurs twice")
    if lacking:
        shown = ", ".join(name[:40] for name in header[:30]) or "nothing"
        raise ValueError(f"{file} is not a table as seedbench reads it: no column {', '.join(lacking)} in {shown}")
    return header


def _name(line: int, row: dict[str, str] | Exception) -> str:
    index = "" if isinstance(row, Exception) else row["index"].strip()
    return f"seedbench/{index}" if index else f"seedbench/line {line}"


def _light(cell: Cell | None, row: dict[str, Any] | Exception) -> dict[str, Any] | Exception:
    """The row with its place, or what is wrong with it, instead of an embedded image."""
    if isinstance(row, Exception):
        return row
    image = row.get("image", "")
    if len(image) > REFERENCE:
        try:
            check_image(decode(image), "its image")
            image = cell
        except ValueError as error:
            image = error
    return row | {"image": image}
