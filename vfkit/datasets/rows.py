"""Rows of data files in any form (JSON lines or list, parquet, TSV, CSV), one at a time, images left in place.

An image inside a file is known by a `Cell` once its row has been read: calling the cell reads the bytes again, and
raises where they are not those that were seen. So a file of any size opens without being held in memory, and one that
changes under way never gives a sample another row's image.
"""

import binascii
import csv
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

LONGEST = 2**27
"""Characters of the longest cell of a TSV or CSV file, lest a quote that is never closed fill the memory."""
csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # of the process, so in every worker that opens a cell
REFERENCE = 64
"""Characters of the longest `image` that is a name and not base64."""
BLOCK = 64
"""Rows of a parquet file that are read together."""

Row = tuple[str, dict[str, Any] | Exception]
"""A row's place in its file ("line 4", "row 3"), and the row, or what is wrong with it."""


def read_rows(file: Path) -> Iterator[Row]:
    """The rows of a file; its form is told by how it begins, TSV from CSV by its name.

    An image in base64 under `image` becomes its bytes. Bytes know where they lie: `.cell`.
    """
    with file.open("rb") as opened:
        start = opened.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1") or file.suffix == ".parquet":
        return parquet_rows(file)
    if start.startswith(b"["):
        return _json_list(file)
    if start.startswith(b"{") or file.suffix in (".jsonl", ".json"):
        return json_rows(file, embedded=True)
    return text_rows(file, "," if file.suffix == ".csv" else "\t")


# --- images in their files --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """An image inside a data file; to call it is to read its bytes.

    Args:
        path: the file.
        digest: SHA-256 of the bytes seen when the file was read.

    Raises:
        ValueError: the file no longer holds these bytes there.
        OSError: it is gone.
    """

    path: str
    digest: str

    def __call__(self) -> bytes:
        try:
            content = self.read()
        except (ValueError, LookupError, TypeError, csv.Error) as error:
            raise ValueError(f"the file has changed since it was read: {error}") from None
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise ValueError("the file has changed since it was read: another image stands there")
        return content

    def read(self) -> bytes:
        raise NotImplementedError

    def __str__(self) -> str:
        return f"in {os.path.basename(self.path)}"


@dataclass(frozen=True)
class TextCell(Cell):
    """A base64 cell of a TSV or CSV file, or of a line of JSON.

    Args:
        start, length: of the image's row, in bytes.
        column: number of the cell in its row, or its name in JSON.
        delimiter: between cells; empty in JSON.
    """

    start: int
    length: int
    column: int | str
    delimiter: str

    def read(self) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self.start)
            text = file.read(self.length).decode(errors="surrogateescape")
        row: Any = next(csv.reader([text], delimiter=self.delimiter)) if self.delimiter else json.loads(text)
        return decode(row[self.column])

    def __str__(self) -> str:
        return f"at byte {self.start:,} of {os.path.basename(self.path)}"


@dataclass(frozen=True)
class ParquetCell(Cell):
    """Bytes in a parquet file.

    Args:
        group, row: the row group, and the row within it.
        column: the way to the bytes: a column's name, then keys and indices within its value.
    """

    group: int
    row: int
    column: tuple[str | int, ...]

    def read(self) -> bytes:
        stamp = os.stat(self.path)
        block = _block(
            self.path, self.group, self.row // BLOCK, self.column[0], stamp.st_size, stamp.st_mtime_ns, stamp.st_ino
        )
        value = block[self.row % BLOCK].as_py()
        for key in self.column[1:]:
            value = value[key]
        return value

    def __str__(self) -> str:
        return f"in row {self.row} of group {self.group} of {os.path.basename(self.path)}"


class Bytes(bytes):
    """Bytes of a row in hand that know their place in its file: `.cell`."""

    cell: Cell


def _placed(content: bytes, kind: type[Cell], path: str, *place: Any) -> Bytes:
    placed = Bytes(content)
    placed.cell = kind(path, hashlib.sha256(content).hexdigest(), *place)
    return placed


def decode(image: str) -> bytes:
    """The bytes that a base64 text stands for; a `data:` address is one too.

    Raises:
        ValueError: it is not base64, or cut off.
    """
    if image.startswith("data:"):
        image = image.partition(",")[2]
    for text in (image, "".join(image.split())):  # lines and blanks within it do not count
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError) as error:
            problem = error
    raise ValueError(f"its image is not sound base64: {problem}")


def _with_image(row: dict[str, Any], path: str, *place: Any) -> dict[str, Any]:
    """The row with its base64 `image`, if it has one, as bytes; as the error where it is not sound."""
    image = row.get("image")
    if not isinstance(image, str) or len(image) <= REFERENCE or _is_name(image):
        return row
    try:
        return row | {"image": _placed(decode(image), TextCell, path, *place)}
    except ValueError as error:
        return row | {"image": error}


def _is_name(text: str) -> bool:
    return len(text) < 1024 and os.path.splitext(text)[1].lower() in (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")


# --- the forms --------------------------------------------------------------------------------------------------------


def json_rows(file: Path, embedded: bool = False) -> Iterator[Row]:
    """The objects of a file of JSON lines; empty lines are passed over.

    Args:
        embedded: whether an `image` may be base64, and is then read as its bytes.
    """
    path = str(file.resolve())
    with file.open("rb") as opened:  # as bytes: split at newlines only, and a line in another encoding costs itself
        start = 0
        for number, line in enumerate(opened, 1):
            if line.strip():
                row = _json_row(line, number)
                if embedded and isinstance(row, dict):
                    row = _with_image(row, path, start, len(line), "image", "")
                yield f"line {number}", row
            start += len(line)


def _json_row(line: bytes, number: int) -> dict[str, Any] | Exception:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return ValueError(f"line {number} is not JSON: {error}")
    if not isinstance(row, dict):
        return ValueError(f"line {number} is no object: {str(row)[:100]}")
    return row


def _json_list(file: Path) -> Iterator[Row]:
    """Row after row, since rows after a damaged one can still be read: rows hold no objects, so `{` begins one."""
    text, decoder = file.read_text(encoding="utf-8-sig", errors="surrogateescape"), json.JSONDecoder()
    end, sound, number = 0, True, 0  # of the row before; after a damaged one what lies between is its rest
    while (at := text.find("{", end)) >= 0:
        place, number = f"row {number}", number + 1
        if sound and (between := text[end:at].strip("[], \t\r\n")):
            yield place, ValueError(f"{between[:80]!r} stands where a row should be")
        try:
            row, end = decoder.raw_decode(text, at)
            sound = True
            yield place, row
        except (ValueError, RecursionError) as error:
            if sound or isinstance(error, ValueError):  # what is nested too deep fails anew at every level
                yield place, ValueError(f"line {text.count(chr(10), 0, at) + 1} holds no sound row: {error}")
            end, sound = at + 1, False
    if not text.rstrip().endswith("]"):
        yield "the end", ValueError("the list does not end, so rows may be lost")


def text_rows(file: Path, delimiter: str = "\t") -> Iterator[Row]:
    """The rows of a table with a header, quoted as spreadsheets do: cells are texts and nothing else.

    A row that cannot be read costs only its first line: reading goes on in the next one.

    Raises:
        ValueError: a column's name occurs twice.
    """
    path, header = str(file.resolve()), header_of(file, delimiter)
    column = header.index("image") if "image" in header else 0
    with file.open("rb") as opened:
        opened.readline()
        number = 1  # of the line last read
        while True:
            start = opened.tell()
            try:
                cells, lines = _cells(opened, delimiter)
                if cells is None:
                    return
                if cells and len(cells) != len(header):
                    raise ValueError(f"line {number + 1} holds {len(cells)} cells where the header has {len(header)}")
            except (csv.Error, ValueError) as error:
                opened.seek(start)
                opened.readline()
                number += 1
                yield f"line {number}", ValueError(f"line {number} cannot be read: {error}")
                continue
            if cells:
                row = dict(zip(header, cells, strict=True))
                yield f"line {number + 1}", _with_image(row, path, start, opened.tell() - start, column, delimiter)
            number += lines


def _cells(opened: BinaryIO, delimiter: str) -> tuple[list[str] | None, int]:
    """The cells of the next row and how many lines it takes; None at the end."""
    start, line = opened.tell(), opened.readline()
    if not line:
        return None, 0
    bare = line.rstrip(b"\r\n")
    if b'"' not in bare and b"\r" not in bare:  # nothing for the csv module, which is slow on long cells
        return (bare.decode(errors="surrogateescape").split(delimiter) if bare else []), 1
    opened.seek(start)
    reader = _reader(opened, delimiter)
    return next(reader), reader.line_num


def _reader(opened, delimiter: str):
    lines = (line.decode(errors="surrogateescape") for line in iter(opened.readline, b""))
    return csv.reader(lines, delimiter=delimiter, strict=True)


def header_of(file: Path, delimiter: str = "\t") -> list[str]:
    """The names of a table's columns.

    Raises:
        ValueError: one occurs twice.
    """
    with file.open("rb") as opened:
        line = opened.readline().decode("utf-8-sig", errors="replace")
    try:
        header = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        header = []
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        raise ValueError(f"{file}: column {', '.join(doubled)} occurs twice")
    return header


def parquet_rows(file: Path) -> Iterator[Row]:
    """The rows of a parquet file, few at a time; where it is damaged, one last error that says from where on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, done = str(file.resolve()), 0
    try:
        opened = pq.ParquetFile(file)
        for group in range(opened.num_row_groups):
            within = 0
            for batch in opened.iter_batches(batch_size=BLOCK, row_groups=[group]):
                for i in range(len(batch)):
                    try:
                        row = _placed_in(batch.slice(i, 1).to_pylist()[0], path, group, within, ())
                    except ValueError as error:  # a text that is not UTF-8
                        row = error
                    yield f"row {done}", row
                    done, within = done + 1, within + 1
    except (pa.ArrowException, OSError) as error:
        yield f"row {done}", ValueError(f"{file.name} is damaged, its rows from {done} on are lost: {error}")


def _placed_in(value: Any, path: str, group: int, row: int, column: tuple) -> Any:
    """The value with all bytes in it placed."""
    if isinstance(value, bytes):
        return _placed(value, ParquetCell, path, group, row, column)
    if isinstance(value, dict):
        return {key: _placed_in(one, path, group, row, (*column, key)) for key, one in value.items()}
    if isinstance(value, list):
        return [_placed_in(one, path, group, row, (*column, i)) for i, one in enumerate(value)]
    return value


@lru_cache(maxsize=4)
def _block(path: str, group: int, block: int, column: str, *stamp: int) -> Any:
    """A column of a block of rows; the file's stamp tells its versions apart."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(path).iter_batches(batch_size=BLOCK, row_groups=[group], columns=[column])
        for number, batch in enumerate(batches):
            if number == block:
                return batch.column(0)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    raise LookupError(f"it has no block {block} in group {group}")
