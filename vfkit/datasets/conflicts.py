"""Public sets of images against expectation that ship truth and trap, as V-FAT items (VF 3.1).

**CDH-Bench** (arXiv 2603.27982): `data/benchmark.jsonl`, one object a pair (`pair_id`, `category`, `subcategory`,
`multiple_choice`: `question`, `options` that begin with their letters, `counterfactual_gt`, `commonsense_gt`;
`direct_qa` with the same two for a yes/no question), and `data/images/<subcategory>/<pair_id>/counterfactual.png` and
`commonsense.png`, blanks and slashes of the names being underscores. Fills every level.

**Visual-Counterfact** (hub `mgolov/Visual-Counterfact`, arXiv 2505.17127): `data/color-*.parquet` and
`data/size-*.parquet` with `object`, `original_image`, `counterfact_image`, `correct_answer` (of the ordinary image: a
Python list of colours, or the larger of two things) and `incorrect_answer` (of the other image). Fills every level;
questions and assertions are made from its words.

**VLMs are biased** (hub `anvo25/vlms-are-biased`, arXiv 2505.23941): `data/main-*.parquet` with `ID`, `image`,
`prompt`, `ground_truth`, `expected_bias`, `topic`, `sub_topic`, `pixel`. It has no ordinary image of the same matter,
so L1 and L3 are filled, and L2 and L0 cannot be.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfkit import prompts
from vfkit.datasets.base import DatasetUnavailable, Rows, rank
from vfkit.datasets.files import ImageFolders, image_of, matching
from vfkit.datasets.rows import json_rows, parquet_rows
from vfkit.datasets.samples import field, listed
from vfkit.datasets.vfat_items import Item, collect_items, item_rows
from vfkit.names import unknown

COLORS = ("black", "blue", "brown", "green", "grey", "orange", "pink", "purple", "red", "white", "yellow")
N_DISTRACTORS = 2  # further colours among the options
BRACES = re.compile(r"\s*[^.?!]*\bcurly brackets\b.*$", re.S)


# --- CDH-Bench --------------------------------------------------------------------------------------------------------


def cdh_bench(
    path: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    baseline: bool = False,
) -> Rows:
    """V-FAT samples of CDH-Bench, six a pair (`<pair_id>/<level>/<format>`); its yes/no questions are kept in `meta`.

    Args:
        path: the folder with `data/benchmark.jsonl` and `data/images/`, or that file.
        order_seed: of the options' order.
        n_items: how many items; None takes all (128).
        item_seed: of their choice.
        baseline: also L0, the neutral prompt on the ordinary image.

    Raises:
        DatasetUnavailable: no path.
        FileNotFoundError: there is no such file.
    """
    if path is None:
        raise _unavailable("cdh_bench", "the folder of CDH-Bench with data/benchmark.jsonl and data/images")
    (file,) = matching(path, "benchmark.jsonl", "data/benchmark.jsonl", "*.jsonl")[:1]
    folders = ImageFolders(file.parent, file.parent / "images")

    def make(row_id: str, row: dict[str, Any]) -> Item:
        choice = row.get("multiple_choice") or {}
        options = dict(_lettered_text(option) for option in listed(choice.get("options"), "options"))
        sides = [_option(options, field(choice, name)) for name in ("counterfactual_gt", "commonsense_gt")]
        place = "/".join(re.sub(r"[ /]", "_", field(row, name)) for name in ("subcategory", "pair_id"))
        atypical, ordinary = (folders.find(f"{place}/{side}") for side in ("counterfactual", "commonsense"))
        return Item(
            id=field(row, "pair_id"), category=str(row.get("category") or ""), atypical=atypical, ordinary=ordinary,
            question=field(choice, "question"), truth=sides[0], trap=sides[1],
            distractors=tuple(option for option in options.values() if option not in sides),
            assertions=_asserted(*sides),
            meta={"source": "cdh_bench", "subcategory": row.get("subcategory"), "direct_qa": row.get("direct_qa")},
        )  # fmt: skip

    rows = ((_named(row, "pair_id", f"{file.name} {place}"), row) for place, row in json_rows(file))
    return item_rows(*collect_items(rows, make), order_seed, n_items, item_seed, baseline)


def _lettered_text(option: str) -> tuple[str, str]:
    """Letter and text of an option such as `A. four legs`."""
    parts = re.fullmatch(r"\s*([A-Za-z])\s*[.):]\s*(.+)", option, re.S)
    if not parts:
        raise ValueError(f"its option {option[:200]!r} does not begin with its letter")
    return parts[1].upper(), parts[2].strip()


def _option(options: dict[str, str], letter: str) -> str:
    if letter.strip().upper() not in options:
        raise ValueError(f"its answer {letter[:200]!r} is none of its options {', '.join(options)}")
    return options[letter.strip().upper()]


# --- Visual-Counterfact -----------------------------------------------------------------------------------------------


def visual_counterfact(
    path: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    baseline: bool = False,
    split: str = "all",
) -> Rows:
    """V-FAT samples of Visual-Counterfact, six an item (`<split>/<row>/<level>/<format>`); arguments as `cdh_bench`.

    Args:
        path: the folder with `data/`, or a parquet file.
        split: `color` (493 rows), `size` (727) or `all`.

    Raises:
        DatasetUnavailable, FileNotFoundError: as `cdh_bench`.
        ValueError: unknown split, or a file of other columns.
    """
    if split not in ("color", "size", "all"):
        raise unknown("split of visual_counterfact", split, ("color", "size", "all"))
    if path is None:
        what = "its folder with data/color-*.parquet and data/size-*.parquet"
        raise _unavailable("visual_counterfact", what, "mgolov/Visual-Counterfact")
    files = matching(path, "data/color-*.parquet", "data/size-*.parquet", "color-*.parquet", "size-*.parquet")
    if not Path(path).expanduser().is_file():
        wanted = ("color-*.parquet", "size-*.parquet") if split == "all" else (f"{split}-*.parquet",)
        files = [file for one in wanted for file in matching(files[0].parent, one)]
    items, errors = collect_items(_counterfact_rows(files), _counterfact_item)
    return item_rows(items, errors, order_seed, n_items, item_seed, baseline)


def _counterfact_rows(files: list[Path]) -> Iterator[tuple[str, Any]]:
    wanted = {"correct_answer", "incorrect_answer", "object", "original_image", "counterfact_image"}
    for file in files:
        for place, row in parquet_rows(file):
            if isinstance(row, dict):
                _check_columns(file, row, wanted, "Visual-Counterfact")
                row = {name: _place(row[name]) if name.endswith("_image") else row[name] for name in wanted}
            yield f"{file.stem.partition('-')[0]}/{place.removeprefix('row ')}", row


def _counterfact_item(row_id: str, row: dict[str, Any]) -> Item:
    images = {name: _opened(row[name]) for name in ("counterfact_image", "original_image")}
    usual, shown = field(row, "correct_answer").strip(), field(row, "incorrect_answer").strip()
    both = dict(id=row_id, category="Physical", atypical=images["counterfact_image"], ordinary=images["original_image"])
    meta = {"source": "visual_counterfact", "object": str(row.get("object") or "")}
    if usual.startswith("["):
        colors, thing = listed(usual, "correct_answer"), field(row, "object")
        if not colors or shown.casefold() in map(str.casefold, colors):
            raise ValueError(f"its colour {shown!r} is one of the usual ones: {usual}")
        others = sorted((color for color in COLORS if color not in (shown, *colors)), key=lambda one: rank(row_id, one))
        stated = {"L2": prompts.assertion(f"a {shown} {thing}"), "L3": prompts.assertion(f"a {colors[0]} {thing}")}
        return Item(
            **both, question=prompts.WHAT_COLOR.format(thing=thing), truth=shown, trap=colors[0], assertions=stated,
            trap_aliases=tuple(colors[1:]), distractors=tuple(others[:N_DISTRACTORS]), meta=meta,
        )  # fmt: skip
    one, other = sorted((usual, shown))
    stated = {
        level: prompts.assertion(f"the {larger} is larger than the {smaller}")
        for level, larger, smaller in (("L2", shown, usual), ("L3", usual, shown))
    }
    question = prompts.WHICH_IS_LARGER.format(one=one, other=other)
    return Item(**both, question=question, truth=shown, trap=usual, assertions=stated, meta=meta)


# --- VLMs are biased --------------------------------------------------------------------------------------------------


def vlms_are_biased(
    path: str | Path | None = None,
    order_seed: int = 0,
    n_items: int | None = None,
    item_seed: int = 0,
    split: str = "main",
    pixel: int | None = 1152,
) -> Rows:
    """V-FAT samples of VLMs are biased at L1 and L3, four a question (`<ID>/<level>/<format>`).

    The prompt's own demand for curly brackets is taken off, since the kit closes questions in its own words; the whole
    prompt is kept in `meta`. Other arguments as `cdh_bench`.

    Args:
        path: the folder with `data/`, or a parquet file.
        split: `main`, `identification`, `withtitle` or one of the others; `original` has no trap.
        pixel: which of the copies of an image is taken (384, 768 or 1152); None takes all, which are no independent
            questions.

    Raises:
        DatasetUnavailable, FileNotFoundError: as `cdh_bench`.
        ValueError: a file of other columns.
    """
    if path is None:
        raise _unavailable("vlms_are_biased", "its folder with data/main-*.parquet", "anvo25/vlms-are-biased")
    files = matching(path, f"data/{split}-*.parquet", f"{split}-*.parquet")
    items, errors = collect_items(_biased_rows(files, pixel), _biased_item)
    notes = ["it has no ordinary image of the same matter: L1 and L3 are filled, L2 and L0 cannot be"]
    return item_rows(items, errors, order_seed, n_items, item_seed, notes=notes)


def _biased_rows(files: list[Path], pixel: int | None) -> Iterator[tuple[str, Any]]:
    for file in files:
        for place, row in parquet_rows(file):
            if isinstance(row, dict):
                _check_columns(file, row, {"ID", "image", "prompt", "ground_truth"}, "VLMs are biased")
                if pixel is not None and row.get("pixel") is not None and str(row["pixel"]) != str(pixel):
                    continue
                row = row | {"image": _place(row["image"])}
            yield _named(row, "ID", f"{file.stem} {place}"), row


def _biased_item(row_id: str, row: dict[str, Any]) -> Item:
    prompt = field(row, "prompt")
    truth, trap = (field(row, name).strip().strip("{}").strip() for name in ("ground_truth", "expected_bias"))
    return Item(
        id=field(row, "ID"), category=str(row.get("topic") or ""), atypical=_opened(row["image"]),
        question=BRACES.sub("", prompt).strip() or prompt, truth=truth, trap=trap, assertions=_asserted(truth, trap),
        meta={"source": "vlms_are_biased", "sub_topic": str(row.get("sub_topic") or ""), "prompt": prompt},
    )  # fmt: skip


# --- shared -----------------------------------------------------------------------------------------------------------


def _unavailable(name: str, what: str, repo: str = "") -> DatasetUnavailable:
    how = f" (`hf download {repo} --repo-type dataset --local-dir FOLDER`)" if repo else ""
    return DatasetUnavailable(
        f"{name} needs path=: {what}{how}; see vfkit.datasets.conflicts. A notebook takes `-p dataset_path FOLDER`. "
        "Without it, try mini_vfat."
    )


def _asserted(truth: str, trap: str) -> dict[str, str]:
    return {"L2": prompts.answer_assertion(truth), "L3": prompts.answer_assertion(trap)}


def _named(row: Any, name: str, place: str) -> str:
    return str(row[name]) if isinstance(row, dict) and row.get(name) not in (None, "") else place


def _check_columns(file: Path, row: dict[str, Any], wanted: set[str], called: str) -> None:
    if lacking := sorted(wanted - set(row)):
        shown = ", ".join(map(str, row))[:300]
        raise ValueError(f"{file} is no file of {called}: no column {', '.join(lacking)} in {shown}")


def _place(cell: Any) -> Any:
    """Where a cell's image lies, or what is wrong with it."""
    try:
        return image_of(cell, ImageFolders(), "its image")
    except ValueError as error:
        return error


def _opened(image: Any) -> Any:
    if isinstance(image, ValueError):
        raise image
    return image
