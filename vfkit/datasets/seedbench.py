"""SEEDBench, and any other multiple choice in the TSV form of VLMEvalKit.

Two forms are read. A **TSV** as VLMEvalKit leaves it in `LMUData` (`SEEDBench_IMG.tsv`, its `SEEDBench_IMG_local.tsv`,
and files of the same form such as `MMBench_DEV_EN.tsv`): a tab-separated table with a header, quoted as spreadsheets do
(a quote within a quoted cell is doubled, and such a cell may span lines). Its columns:

| column | holds |
|---|---|
| `index` | the row's own name |
| `image` | an image file in base64; or, in up to 64 characters, the `index` of the row that holds the same image |
| `image_path` | instead of `image`: the image's name, looked up beside `X.tsv`, in `images/` and in `images/X/` there (`X` without `_local` too); an absolute path is looked up by its end |
| `question` | the question |
| `A`, `B` ... | the options, without a gap; a row may have fewer than there are columns |
| `answer` | the option's letter, its text, or its index from 0 |
| `category`, `hint` | optional |

Cells are texts and nothing else: an option that reads "None" or "NA" is one. In a file without one empty cell, `nan` is
how pandas wrote the empty ones.

And the **parquet** files of the hub's `lmms-lab/SEED-Bench`: `question_id`, `question`, `choice_a` ... `choice_d`,
`answer` (a letter), `image` (a list of `{bytes, path}`), `question_type_id`, `data_type`. Rows about videos are counted
and left out.

Files are never written to, and their images are not held: each is read again from its place whenever it is opened.
"""  # noqa: E501

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit.datasets.base import DatasetUnavailable, RowError, Rows
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.rows import header_of, parquet_rows, text_rows
from vfkit.datasets.samples import Asked, collect_choices, field, lettered, nan_as_empty, sound
from vfkit.sample import Sample

MISSING = (
    "seedbench needs path=: the file SEEDBench_IMG.tsv as VLMEvalKit has it (some GB; that toolkit downloads it into "
    "LMUData in the home folder for its data set SEEDBench_IMG), the parquet files of lmms-lab/SEED-Bench, or a folder "
    "that holds either. A notebook takes `-p dataset_path FILE`. Without it, try mini_seed or easy_vqa."
)
COLUMNS = ("index", "question", "A", "answer")
TYPES = (
    *("Scene Understanding", "Instance Identity", "Instance Attributes", "Instance Location", "Instances Counting"),
    *("Spatial Relation", "Instance Interaction", "Visual Reasoning", "Text Understanding"),
)
"""SEEDBench's names of its `question_type_id` 1 to 9, those about images."""


def load(path: str | Path | None = None) -> Rows:
    """Rows of a TSV in VLMEvalKit's form, or of SEEDBench's parquet files; a sample's id is `seedbench/<index>`.

    Args:
        path: the file, or a folder that holds it.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: there is nothing at `path`, or several such files and none of the usual name.
        ValueError: the file is no such table: its header lacks columns.
    """
    if path is None:
        raise DatasetUnavailable(MISSING)
    usual = ("SEEDBench_IMG.tsv", "SEEDBench_IMG_local.tsv", "*.tsv")
    files = matching(path, *usual, "data/*.parquet", "**/*.parquet")
    if files[0].suffix == ".parquet":
        return _hub(files)
    if len(files) > 1:
        raise FileNotFoundError(f"which of {', '.join(file.name for file in files)}? Give the file itself as path")
    return _table(files[0])


# --- a TSV ------------------------------------------------------------------------------------------------------------


def _table(file: Path) -> Rows:
    _check_header(file)
    names = (file.stem, file.stem.removesuffix("_local"))
    folders = ImageFolders(file.parent, file.parent / "images", *(file.parent / "images" / name for name in names))
    rows = nan_as_empty([(_name(place, row), _light(row)) for place, row in text_rows(file)])
    held: dict[str, Any] = {}
    for row_id, row in rows:
        if isinstance(row, dict) and not isinstance(row["image"], str):
            held.setdefault(row_id, row["image"])

    def make(row_id: str, row: dict) -> Asked:
        index, question, answer = (field(row, name) for name in ("index", "question", "answer"))
        category, hint = (sound(row.get(name, ""), name) for name in ("category", "hint"))
        image = row["image"]
        if isinstance(image, str) and image.strip():
            if f"seedbench/{image.strip()}" not in held:
                raise ValueError(f"its image {image!r} is neither base64 nor the index of a row that holds one")
            image = held[f"seedbench/{image.strip()}"]
        if isinstance(image, ValueError):
            raise image
        source = image or folders.find(field(row, "image", "image_path"))
        sample = Sample(row_id, (source,), question, lettered(row), category=category, hint=hint, meta={"index": index})
        return sample, answer

    return collect_choices(rows, make)


def _check_header(file: Path) -> None:
    header = header_of(file)
    lacking = [name for name in COLUMNS if name not in header]
    if not {"image", "image_path"} & set(header):
        lacking.append("image or image_path")
    if lacking:
        shown = ", ".join(name[:40] for name in header[:30]) or "nothing"
        raise ValueError(
            f"{file} is not a table as seedbench reads it: no column {', '.join(lacking)} in {shown}. Wanted: a TSV "
            "with index, image (base64) or image_path, question, A, B ..., answer; optional category, hint."
        )


def _name(place: str, row: dict[str, Any] | Exception) -> str:
    index = "" if isinstance(row, Exception) else row["index"].strip()
    return f"seedbench/{index or place}"


def _light(row: dict[str, Any] | Exception) -> dict[str, Any] | Exception:
    """The row with its embedded image's place, or what is wrong with it, instead of its bytes."""
    if isinstance(row, Exception):
        return row
    image = row.get("image", "")
    if isinstance(image, bytes):
        try:
            image = image_of(image, ImageFolders(), "its image")
        except ValueError as error:
            image = error
    return row | {"image": image}


# --- the hub's parquet ------------------------------------------------------------------------------------------------


def _hub(files: list[Path]) -> Rows:
    videos: list[str] = []
    rows = collect_choices(_of_images(files, videos), _hub_sample)
    if videos:
        reason = f"{len(videos)} rows are about videos and left out, the first of them {videos[0]}"
        rows.errors.append(RowError("seedbench/videos", reason))
    return rows


def _of_images(files: list[Path], videos: list[str]) -> Iterator[tuple[str, Any]]:
    for file in files:
        for place, row in parquet_rows(file):
            if isinstance(row, dict) and "choice_a" not in row:
                shown = ", ".join(map(str, row))[:200]
                raise ValueError(f"{file} is no parquet file of lmms-lab/SEED-Bench: no column choice_a in {shown}")
            if isinstance(row, dict) and row.get("data_type") == "video":
                videos.append(str(row.get("question_id")))
                continue
            named = "" if isinstance(row, Exception) else row.get("question_id")
            yield f"seedbench/{named or f'{file.stem}/{place}'}", row


def _hub_sample(row_id: str, row: dict[str, Any]) -> Asked:
    index = field(row, "question_id")
    options = lettered(row, [f"choice_{letter}" for letter in "abcd"])
    cells = row.get("image")
    cells = cells if isinstance(cells, list) else [cells]
    if not cells:
        raise ValueError("it has no image")
    images = tuple(image_of(cell, ImageFolders(), "its image") for cell in cells)
    kind = row.get("question_type_id")
    category = TYPES[kind - 1] if isinstance(kind, int) and 1 <= kind <= len(TYPES) else str(kind or "")
    sample = Sample(row_id, images, field(row, "question"), options, category=category, meta={"index": index})
    return sample, field(row, "answer")
