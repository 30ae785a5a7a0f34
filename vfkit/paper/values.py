"""Published values of the two papers, and the names that the papers and vfkit have for one thing.

`data/paper_values.csv` holds one number per row. `evidence` says where a number comes from: `paper` (printed), `run
files` (released by HI's authors), `run files, match print` (of a run equal to every printed cell that could be read,
so taken as the printed table; cells that could not be read are inferred), `computed from run files`, `secondary source
on v1`. HI's runs 0 to 3 each take other 3,500 images of SEEDBench; its Tables 1 to 3 are run 0.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

import pandas as pd

from vfkit.hub import ModelUnavailable
from vfkit.metrics.frames import UNION
from vfkit.models.registry import find

# HI's names of the families -> ours
FAMILIES = {
    "Translation": "translation",
    "Pad/Crop": "pad_crop",
    "Scale": "scale",
    "Scale+Pad": "scale_pad",
    "Rotation": "rotation",
    "TextOverlay": "text_overlay",
    "RandomText": "random_text",
    "BoxOverlay": "box_overlay",
    "Any(6 families, without Box/Random)": UNION,
    "Any(union)": UNION,
}
# our data sets -> HI's names; of POPE HI's values are of one split
DATASETS = {"seedbench": "SEEDBench_IMG", "mmmu": "MMMU", "pope": "POPE"}
# our models (params/models.yaml) -> HI's; HI does not say the size of its Qwen3-VL everywhere
MODELS = {"qwen3vl_2b": "Qwen3-VL-2B-Instruct", "gemma3_4b": "Gemma-3-4B-IT", "gemma3_12b": "Gemma-3-12B-IT"}
SIZELESS = ("qwen3vl_2b", "qwen3vl_4b", "qwen3vl_8b", "qwen3vl_32b")
# where HI most likely read its states, by model: its L2 norms near 2,000 are those before the final norm (METHODS 18)
TAPS = {"Qwen3-VL-2B-Instruct": "pre_norm", "Gemma-3-4B-IT": "post_norm", "Gemma-3-12B-IT": "post_norm"}
_FILTERS = ("paper", "model", "dataset", "where", "family", "metric")


@cache
def _values() -> pd.DataFrame:
    with (files("vfkit") / "data" / "paper_values.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table.insert(table.columns.get_loc("value") + 1, "printed", table["value"])
    table["value"] = pd.to_numeric(table["value"], errors="coerce")
    return table


def published(
    paper: str | Sequence[str] | None = None,
    model: str | Sequence[str] | None = None,
    dataset: str | Sequence[str] | None = None,
    where: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    metric: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Published values that equal all the given filters; a filter may list several names. Families go by either name.

    Returns:
        `paper`, `model`, `dataset`, `where`, `family` (the paper's name), `metric`, `value` (in `unit`; NaN where a
        range or bound is published), `printed` (as published), `unit`, `evidence`, `note`.

    Raises:
        ValueError: a name that occurs nowhere in its column.
    """
    table = _values()
    for column, wanted in zip(_FILTERS, (paper, model, dataset, where, family, metric), strict=True):
        if wanted is None:
            continue
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        if column == "family":
            wanted += [theirs for theirs, ours in FAMILIES.items() if ours in wanted]
        known = set(_values()[column]) | (set(FAMILIES.values()) if column == "family" else set())
        for name in wanted:
            if name not in known:
                near = get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:5]
                raise ValueError(f"no published value has {column} {name!r}; near: {', '.join(map(repr, near))}")
        table = table[table[column].isin(wanted)]
    return table.reset_index(drop=True)


def canonical(model: str) -> str:
    """The registered name of a model given by name, hub id or folder; any other name as it is."""
    try:
        return find(model).name
    except ModelUnavailable:
        return model
