"""Files of a data set: which there are, and the images that its rows name."""

import io
import os
import re
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from PIL import Image, UnidentifiedImageError

IMAGE_TYPES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
"""Extensions tried where a row names its image without one."""


# --- data files -------------------------------------------------------------------------------------------------------


def matching(path: str | Path, *patterns: str) -> list[Path]:
    """`path` itself where it is a file, else the files below it that match the first pattern that any file matches.

    Raises:
        FileNotFoundError: there is no such path, nothing in it matches, or of the parts of a file, called
            `...-00000-of-00003.parquet`, one is missing.
        ValueError: a file is a Git LFS pointer, which stands for a file that was not fetched.
    """
    path = Path(path).expanduser()
    if path.is_file():
        return _fetched([path])
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {path}")
    for pattern in patterns:
        if files := sorted(file for file in path.glob(pattern) if file.is_file()):
            return _whole(files)
    raise FileNotFoundError(f"the folder {path} holds no {' and no '.join(patterns)}")


def _fetched(files: list[Path]) -> list[Path]:
    for file in files:
        with file.open("rb") as opened:
            if opened.read(24) == b"version https://git-lfs.":
                raise ValueError(f"{file} is a Git LFS pointer and not the file itself: fetch it with `git lfs pull`")
    return files


def _whole(files: list[Path]) -> list[Path]:
    for file in files:
        if part := re.search(r"-\d{5}-of-(\d{5})", file.name):
            siblings = re.escape(file.name[: part.start()]) + rf"-\d{{5}}-of-{part[1]}"
            there = sum(other.parent == file.parent and bool(re.match(siblings, other.name)) for other in files)
            if there < int(part[1]):
                raise FileNotFoundError(f"{file.parent}: of {int(part[1])} files like {file.name} {there} are there")
    return _fetched(files)


# --- images -----------------------------------------------------------------------------------------------------------


class ImageFolders:
    """Folders in which a data set's images are looked up by the names that its rows give.

    A name is a path below one of the folders, with or without its extension. An absolute path, as toolkits write them
    into tables on another machine, is looked up by its end, the longest that is there. What lies outside the folders
    is refused, be it named by `..` or reached through a link; links within them are followed, and so are those of a
    snapshot in the hub's cache to the repository's blobs.
    """

    def __init__(self, *folders: str | Path | None):
        given = (Path(os.path.abspath(Path(folder).expanduser())) for folder in folders if folder is not None)
        self.folders = [folder for folder in dict.fromkeys(given) if folder.is_dir()]
        self._roots = [folder.resolve() for folder in self.folders] + [
            blobs.resolve() for folder in self.folders for blobs in _blobs(folder)
        ]
        self._by_end: dict[str, str] = {}  # image -> the absolute path that led to it
        self.find = cache(self._find)  # several questions share an image

    def _find(self, name: str) -> str:
        """The path of the image called `name`, opened as far as its header.

        Raises:
            ValueError: no such image, no image at all, or a name that leads out of the folders.
        """
        if not isinstance(name, str) or not name.strip() or "\0" in name:
            raise ValueError(f"{name!r} is no name of an image")
        paths: list[PurePosixPath | PureWindowsPath] = [PurePosixPath(name), PureWindowsPath(name)]
        if any(".." in path.parts for path in paths):
            raise ValueError(f"the image name {name[:200]!r} leads out of the data's folder")
        absolute = next((path for path in paths if path.anchor), None)
        relative = PureWindowsPath(name).as_posix() if "\\" in name else name
        for end in [relative] if absolute is None else _ends(absolute):
            for path in self._candidates(end):
                path = self._inside(path, name)
                check_image(path, f"the image {name!r}")
                if absolute is not None and self._by_end.setdefault(str(path), name) != name:
                    raise ValueError(f"the image names {self._by_end[str(path)]!r} and {name!r} both end in {end!r}")
                return str(path)
        if absolute is not None:
            raise ValueError(f"the image name {name[:200]!r} leads out of the data's folder, which holds no such end")
        where = " or ".join(map(str, self.folders)) or "any folder"
        raise ValueError(f"there is no image {name[:200]!r} in {where}")

    def _candidates(self, name: str):
        for folder in self.folders:
            for suffix in ("", *IMAGE_TYPES):
                path = os.path.join(folder, name + suffix)
                if os.path.isfile(path) or (not suffix and os.path.islink(path) and not os.path.isdir(path)):
                    yield Path(path)
                    break

    def _inside(self, path: Path, name: str) -> Path:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # a link to nothing, or links in a circle
            raise ValueError(f"the image {name!r} cannot be found: {error}") from None
        if not any(real.is_relative_to(root) for root in self._roots):
            raise ValueError(f"the image {name!r} is a link that leads out of the data's folder")
        return real


def _blobs(folder: Path) -> list[Path]:
    """The blobs of the hub's cache where the folder lies in one of its snapshots: `<repo>/snapshots/<revision>/...`."""
    repos = [
        Path(*path.parts[:i])
        for path in (folder, folder.resolve())  # the folder may be a link to a snapshot
        for i, part in enumerate(path.parts)
        if part == "snapshots" and i + 1 < len(path.parts)
    ]
    return [repo / "blobs" for repo in repos if (repo / "blobs").is_dir()]


def _ends(path: PurePosixPath | PureWindowsPath) -> list[str]:
    parts = path.parts[1:]
    return ["/".join(parts[i:]) for i in range(len(parts))]


def check_image(source: Path | bytes, called: str) -> tuple[int, int]:
    """Width and height by an image's header; its pixels are read when the sample is.

    Raises:
        ValueError: it is empty or no image.
    """
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return image.size
    except UnidentifiedImageError:
        raise ValueError(f"{called[:200]} is empty, or no image") from None
    except Exception as error:  # decoders fail with anything
        raise ValueError(f"{called[:200]} cannot be opened: {error}") from None


def image_of(cell: Any, folders: ImageFolders, called: str) -> Any:
    """The image of a row's cell, as a sample takes it: where it lies in its data file, or the path of the file named.

    Args:
        cell: `{bytes, path}` as parquet files of the hub have it, its bytes, or the name of a file.
        called: what messages call it.

    Raises:
        ValueError: it holds none of these, or no image.
    """
    if isinstance(cell, dict):
        content, path = cell.get("bytes"), cell.get("path")
    else:
        content, path = (None, cell) if isinstance(cell, str) else (cell, None)
    if isinstance(content, bytes):
        check_image(content, called)
        return getattr(content, "cell", content)
    if isinstance(path, str) and path.strip():
        return folders.find(path)
    raise ValueError(f"{called} is missing")
