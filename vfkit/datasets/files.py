"""What loaders of files share: checked fields, answers in any form, images by name, parquet row by row."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from PIL import Image, UnidentifiedImageError

from vfkit.datasets.base import RowError, Rows
from vfkit.sample import LETTERS, Sample


def collect(rows: Iterable[tuple[str, Any]], make: Callable[[str, Any], Sample]) -> Rows:
    """Samples of all rows that give one, and an error for each of the others.

    Args:
        rows: an id for each, and the row, or the exception that reading it has raised.
        make: turns id and row into a sample; what it lacks it says by a ValueError.
    """
    samples, errors = [], []
    for id, row in rows:
        try:
            if isinstance(row, Exception):
                raise row
            samples.append(make(id, row))
        except (ValueError, OSError) as error:
            errors.append(RowError(id, str(error)))
    return Rows(samples, errors)


def field(row: dict, *names: str) -> str:
    """The text under the first of these names that the row has; numbers become text.

    Raises:
        ValueError: there is none, it is blank, or it is no text that can be written (broken UTF-8).
    """
    value = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"its {names[0]} is {value!r}, not a text")
    text = str(value)
    if not text.strip():
        raise ValueError(f"it has no {names[0]}")
    return sound(text, names[0])


def sound(text: str, name: str) -> str:
    """The text itself, where it can be written as UTF-8.

    Raises:
        ValueError: it cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"its {name} is not sound UTF-8: {text!r}") from None
    return text


def answer_index(answer: str, options: Sequence[str]) -> int:
    """The option that an answer means: by its letter, else by its whole text, else by its index from 0.

    A letter counts first, since that is how files of multiple choice give answers; a lower-case one does too.

    Raises:
        ValueError: it means none of the options, or a text that several of them share.
    """
    text = answer.strip()
    if len(text) == 1 and text.upper() in LETTERS[: len(options)]:
        return LETTERS.index(text.upper())
    same = [index for index, option in enumerate(options) if option.strip() == text]
    if len(same) > 1:
        raise ValueError(f"its answer {answer!r} is the text of {len(same)} options")
    if same:
        return same[0]
    if re.fullmatch("[0-9]+", text) and int(text) < len(options):
        return int(text)
    raise ValueError(f"its answer {answer!r} is none of its {len(options)} options")


# --- images -----------------------------------------------------------------------------------------------------------


class ImageFolders:
    """Folders in which a data set's images are looked up by the names that its rows give."""

    def __init__(self, *folders: str | Path | None):
        there = (Path(folder).expanduser().resolve() for folder in folders if folder is not None)
        self.folders = [folder for folder in dict.fromkeys(there) if folder.is_dir()]
        self.find = cache(self._find)  # several questions share an image

    def _find(self, name: str) -> str:
        """The path of the image called `name`, opened as far as its header.

        Raises:
            ValueError: no such image, no image at all, or a name that leads out of the folders, be it by `..`, as an
                absolute path, or through a link.
        """
        if not name.strip() or "\0" in name:
            raise ValueError(f"{name!r} is no name of an image")
        for kind in (PurePosixPath, PureWindowsPath):
            path = kind(name)
            if path.anchor or ".." in path.parts:
                raise ValueError(f"the image name {name!r} leads out of the data's folder")
        for folder in self.folders:
            try:
                path = (folder / name).resolve()
            except (OSError, RuntimeError) as error:  # links in a circle, for one
                raise ValueError(f"the image {name!r} cannot be found: {error}") from None
            if not any(path.is_relative_to(root) for root in self.folders):
                raise ValueError(f"the image {name!r} is a link that leads out of the data's folder")
            if path.is_file():
                check_image(path, f"the image {name!r}")
                return str(path)
        raise ValueError(f"there is no image {name!r} in {' or '.join(map(str, self.folders)) or 'any folder'}")


def check_image(source: Path | bytes, called: str) -> None:
    """Looks at an image's header; the rest is the image door's business, when the sample is read.

    Raises:
        ValueError: it is empty or no image.
    """
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source):
            return
    except UnidentifiedImageError:
        raise ValueError(f"{called} is empty, or no image") from None
    except Exception as error:  # decoders fail with anything
        raise ValueError(f"{called} cannot be opened: {error}") from None


def embedded(cell: Any, folders: ImageFolders, called: str) -> bytes | str:
    """The image of a parquet cell `{bytes, path}`: its bytes, else the file of that name.

    Raises:
        ValueError: it holds neither, or no image.
    """
    cell = cell if isinstance(cell, dict) else {"bytes": cell}
    content, path = cell.get("bytes"), cell.get("path")
    if isinstance(content, bytes):
        check_image(content, called)
        return content
    if isinstance(path, str) and path:
        return folders.find(path)
    raise ValueError(f"{called} is missing")


# --- files ------------------------------------------------------------------------------------------------------------


def matching(path: str | Path, *patterns: str) -> list[Path]:
    """`path` itself where it is a file, else the files below it that match the first pattern that any file matches.

    Raises:
        FileNotFoundError: there is no such path, nothing in it matches, or of the parts of a file, called
            `...-00000-of-00003.parquet`, one is missing.
    """
    path = Path(path).expanduser()
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {path}")
    for pattern in patterns:
        if found := sorted(file for file in path.glob(pattern) if file.is_file()):
            return _whole(found)
    raise FileNotFoundError(f"the folder {path} holds no {' and no '.join(patterns)}")


def _whole(files: list[Path]) -> list[Path]:
    for file in files:
        if part := re.search(r"-\d{5}-of-(\d{5})", file.name):
            siblings = re.escape(file.name[: part.start()]) + rf"-\d{{5}}-of-{part[1]}"
            there = sum(other.parent == file.parent and bool(re.match(siblings, other.name)) for other in files)
            if there < int(part[1]):
                raise FileNotFoundError(f"{file.parent}: of {int(part[1])} files like {file.name} {there} are there")
    return files


def parquet_rows(file: Path) -> Iterator[dict | Exception]:
    """The rows of a parquet file, few at a time; where it is damaged, one last exception that says from where on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    done = 0
    try:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
            for i in range(len(batch)):
                try:
                    row = batch.slice(i, 1).to_pylist()[0]
                except ValueError as error:  # a text that is not UTF-8
                    row = error
                yield row
                done += 1
    except (pa.ArrowException, OSError) as error:
        yield ValueError(f"{file.name} is damaged, its rows from {done} on are lost: {error}")
