"""V-FAT as JSON lines: the form in which vfkit writes items and reads any others, official ones or one's own.

One object a line is one question about one image; six of them, three levels in two formats, are an item:

    {"id": "banana-1",            the item's id; `<id>/<level>/<format>` names the sample
     "image": "images/b.jpg",     below the file's own folder
     "level": "L3",               L1, L2, L3 or L0 (neutral prompt, ordinary image)
     "format": "mcq",             mcq, or oe for an open question
     "question": "What colour is the banana?",
     "hint": "This image shows the following: a yellow banana.",   optional: what L2 and L3 assert
     "options": ["yellow", "red", "blue"],   as shown; of an open question, or left out: answer and trap
     "answer": "blue",            the truth
     "trap": "yellow",            what expectation, or the prompt, says
     "aliases": ["bluish"], "trap_aliases": [],   optional: other words for answer and trap
     "category": "Physical",      optional
     "meta": {}}                  optional: anything else
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vfkit.datasets.base import DatasetUnavailable, RowError, Rows, digest, distinct, select
from vfkit.datasets.files import ImageFolders
from vfkit.datasets.rows import json_rows
from vfkit.datasets.vfat_items import BASELINE, FORMATS, LEVELS, Text, check_n_items, in_order, sample_meta, why
from vfkit.sample import LETTERS, Sample

FILE = "vfat.jsonl"
MISSING = (
    f"vfat needs path=: a V-FAT file, or a folder with a {FILE} (see vfkit.datasets.vfat). A notebook takes "
    "`-p dataset_path FILE`. Without it, try mini_vfat."
)


class Row(BaseModel):
    """One line of a V-FAT file.

    Raises:
        pydantic.ValidationError (a ValueError): a field that is missing, empty, unknown or of another type, an answer
            or trap that is none of the options, options that are alike.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_strip_whitespace=True)

    id: Text
    image: Text
    level: Literal[(BASELINE, *LEVELS)]  # type: ignore[valid-type]
    format: Literal[FORMATS]  # type: ignore[valid-type]
    question: Text
    hint: str = ""
    options: list[Text] = Field([], max_length=len(LETTERS))
    answer: Text
    trap: Text
    aliases: list[Text] = []
    trap_aliases: list[Text] = []
    category: str = ""
    meta: dict[str, Any] = {}

    @model_validator(mode="after")
    def _sound(self) -> "Row":
        if self.answer.casefold() == self.trap.casefold():
            raise ValueError(f"answer and trap are alike: {self.answer!r}")
        for name in ("answer", "trap"):
            if self.options and getattr(self, name) not in self.options:
                raise ValueError(f"its {name} {getattr(self, name)!r} is none of its options")
        if len(set(self.options)) < len(self.options):
            raise ValueError("two of its options are alike")
        return self


def load(path: str | Path | None = None, order_seed: int = 0, n_items: int | None = None, item_seed: int = 0) -> Rows:
    """Samples of a V-FAT file.

    Options stand in the order the file has them. Where a multiple-choice row has none, they are answer and trap, in an
    order drawn by `order_seed` and the item's id.

    Args:
        path: the file, or a folder with a `vfat.jsonl`.
        n_items: how many items; None takes all.
        item_seed: of their choice.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: no such file.
        ValueError: n_items is no positive whole number.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    file = Path(path).expanduser()
    file = file / FILE if file.is_dir() else file
    if not file.is_file():
        raise FileNotFoundError(f"vfat needs path=: a V-FAT file, or a folder with a {FILE}; {path} is neither")
    check_n_items(n_items)
    folders, samples, errors = ImageFolders(file.parent), [], []
    for place, row in json_rows(file):
        place = f"{file.name} {place}"
        try:
            if isinstance(row, Exception):
                raise row
            samples.append(_sample(Row(**row), folders, order_seed))
        except (ValueError, TypeError, OSError, RecursionError) as error:
            row_id = "" if isinstance(row, Exception) else row.get("id")
            errors.append(RowError(str(row_id or place), f"{place}: {why(error)}"))
    if n_items is not None:
        first, _ = distinct(Sample(s.meta["item"], (), "", ("",), category=s.category) for s in samples)
        chosen = {item.id for item in select(first, n_items, item_seed)}
        samples = [sample for sample in samples if sample.meta["item"] in chosen]
    return Rows(samples, errors)


def _sample(row: Row, folders: ImageFolders, order_seed: int) -> Sample:
    pair = sorted([row.answer, row.trap])  # the same pair whichever of them is true
    options = row.options or (in_order(pair, row.id, order_seed) if row.format == "mcq" else [row.answer, row.trap])
    if row.format == "oe":
        options = [row.answer, row.trap]
    return Sample(
        f"{row.id}/{row.level}/{row.format}",
        (folders.find(row.image),),
        row.question,
        tuple(options),
        options.index(row.answer),
        row.category,
        row.hint,
        "mcq" if row.format == "mcq" else "open",
        row.meta
        | ({} if row.options or row.format == "oe" else {"order_seed": order_seed})
        | sample_meta(row.id, row.level, row.format, row.answer, row.trap, row.aliases, row.trap_aliases, options),
    )


def write(file: str | Path, samples: Iterable[Sample]) -> Path:
    """Write samples as a V-FAT file, their images beside it in `images/`, so that the folder can be moved as it is.

    Raises:
        FileExistsError: the file is there already.
    """
    file = Path(file)
    if file.exists():
        raise FileExistsError(f"{file} is there already; give another name, or delete it")
    (file.parent / "images").mkdir(parents=True, exist_ok=True)
    names: dict[Any, str] = {}
    lines = []
    for sample in samples:
        (source,) = sample.images
        content = digest(source, str)
        if content not in names:
            names[content] = copy_image(source, file.parent / "images", f"{file.stem}_{len(names):05d}")
        known = sample_meta("", "", "", "", "", [], [], []).keys()
        meta = {name: value for name, value in sample.meta.items() if name not in known or name == "order"}
        row = Row(
            id=sample.meta["item"], image=f"images/{names[content]}", level=sample.meta["level"],
            format=sample.meta["format"], question=sample.question, hint=sample.hint, options=list(sample.options),
            answer=sample.meta["truth"], trap=sample.meta["trap"], aliases=sample.meta["aliases"],
            trap_aliases=sample.meta["trap_aliases"], category=sample.category, meta=meta,
        )  # fmt: skip
        lines.append(json.dumps(row.model_dump(), ensure_ascii=False) + "\n")
    file.write_text("".join(lines), encoding="utf-8")
    return file


def copy_image(source: Any, folder: Path, stem: str) -> str:
    """Write an image's file into a folder, as it is; returns its name there.

    Args:
        source: bytes, a path, or a function that reads one of these.
    """
    source = source() if callable(source) and not isinstance(source, str) else source
    if isinstance(source, bytes):
        name = f"{stem}.jpg" if source[:2] == b"\xff\xd8" else f"{stem}.png"
        (folder / name).write_bytes(source)
        return name
    name = stem + Path(source).suffix.lower()
    shutil.copyfile(source, folder / name)
    return name
