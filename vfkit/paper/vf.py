"""Published values of VF, in the terms of `metrics.vfat_scores`, and how to set them beside ours."""

from collections.abc import Iterable
from difflib import get_close_matches

import pandas as pd

from vfkit.paper.values import canonical, published

# our names of models (params/models.yaml) -> VF's
VFAT_MODELS = {
    "gpt_5_1": "GPT-5.1",
    "seed_1_6": "Seed-1.6",
    "gemini_3_flash": "Gemini-3-Flash",
    "claude_haiku_4_5": "Claude-Haiku-4.5",
    "gemma3_12b": "Gemma-3-12B",
    "qwen3vl_8b": "Qwen3-VL-8B",
    "qwen3vl_8b_thinking": "Qwen3-VL-8B-Thinking",
    "glm46v": "GLM-4.6v-106B",
    "internvl3_78b": "InternVL3-78B",
    "qwen25vl_7b": "Qwen2.5-VL-7B",
    "qwen25vl_32b": "Qwen2.5-VL-32B",
    "qwen25vl_72b": "Qwen2.5-VL-72B",
}
# VF's Table 2 -> the names of its Table 1
TABLE_2 = {f"Qwen2.5-VL-{size}-Instruct": f"Qwen2.5-VL-{size}" for size in ("7B", "32B", "72B")}
TABLE_2 |= {"Qwen3-8B-Instruct": "Qwen3-VL-8B", "Qwen3-8B-Thinking": "Qwen3-VL-8B-Thinking"}
_VFAT = {"Acc": "mAcc", "mAcc": "mAcc", "VRS": "VRS", "VRS_avg": "VRS"}
_VFAT |= {"vision_consistent": "mAcc", "bias_error": "mTDS", "other_error": "other_share"}
REASONING = ("Qwen3-VL-8B-Thinking", "GLM-4.6v-106B")  # VF's values of them follow their own reasoning
VFAT_DATASETS = ("vfat", "vlind", "weird")  # V-FAT, and what it was made of
VFAT_ITEMS = 302  # every cell of VF's Table 1 but one is a multiple of 1 / 302, printed in per cent with two digits


def published_vfat() -> pd.DataFrame:
    """VF's Tables 1 and 2 and what its text says of Figures 4 and 5, in the terms of `metrics.vfat_scores`.

    Returns:
        `model` (VF's name), `format`, `level` (`all`: pooled), `measure` (mAcc, mTDS, other_share, VRS), `value`
        (0 to 1), `n` (inferred; missing where nothing is known), `source`, and `remark`, which flags two things: a cell
        of Table 1 that no whole number of items gives, with the one that its row's printed mean needs; and shares of
        Figure 5 that are not the means of Table 1, whose own means stand as level `all`.
        Table 2 repeats them, so only its VRS is here; VRS pools the formats, as the printed accuracies bear out.
    """
    table = published(paper="VF", dataset="V-FAT")
    table = table[table["metric"].isin(_VFAT) & ((table["where"] != "Table 2") | (table["metric"] == "VRS_avg"))]
    parts = table["family"].str.extract(r"^(MCQ|OE)?\s*(L\d)?")
    table = pd.DataFrame(
        {
            "model": table["model"].replace(TABLE_2),
            "format": parts[0].str.lower().fillna("all"),
            "level": parts[1].fillna("all"),
            "measure": table["metric"].map(_VFAT),
            "value": table["value"].where(table["unit"] != "%", table["value"] / 100).round(6),
            "source": "VF " + table["where"] + ", " + table["model"],
        }
    )
    first = table["source"].str.startswith("VF Table 1")
    table["n"] = (VFAT_ITEMS * table["level"].map({"all": 3}).fillna(1)).where(first)
    remarks = {**_misprints(table[first]), **_disagreements(table, first)}
    return table.assign(remark=table.index.map(remarks).fillna("")).reset_index(drop=True)


def _misprints(cells: pd.DataFrame) -> dict:
    """A remark for each cell that is no share of VFAT_ITEMS, by its index."""
    whole = cells["level"] == "all"
    means = cells[whole].set_index(["model", "format"])["value"]
    remarks = {}
    for row in cells[~whole].itertuples():
        if round(round(row.value * VFAT_ITEMS) / VFAT_ITEMS, 4) == row.value:
            continue
        same = (cells["model"] == row.model) & (cells["format"] == row.format) & ~whole & (cells.index != row.Index)
        count = round((3 * means[row.model, row.format] - cells.loc[same, "value"].sum()) * VFAT_ITEMS)
        remarks[row.Index] = (
            f"misprint? {100 * row.value:.2f} is no multiple of 1/{VFAT_ITEMS}; the printed mean needs "
            f"{100 * count / VFAT_ITEMS:.2f} ({count}/{VFAT_ITEMS})"
        )
    return remarks


def _disagreements(table: pd.DataFrame, first: pd.Series) -> dict:
    """A remark for each share of vision pooled over all models that is not the mean of Table 1, by its index."""
    means = table[first & (table["level"] == "all")].groupby("format")["value"].mean()
    pooled = table[~first & (table["measure"] == "mAcc")]
    return {
        row.Index: f"the mean of Table 1 over its models is {100 * means[row.format]:.2f}, so other answers are pooled"
        for row in pooled.itertuples()
        if abs(row.value - means[row.format]) > 0.001
    }


def neighbours(models: Iterable[str], dataset: str, other: str | None = None) -> pd.DataFrame:
    """The rows of `published_vfat` that a figure of these models on this data set may show (METHODS 18).

    Args:
        models: by registered name, hub id or folder. dataset: the data they answered.
        other: a VF model that is asked for by name.

    Returns:
        All rows where the data are of `VFAT_DATASETS` and VF has one of the models; else those of `other`; without it
        none.
    """
    values = published_vfat()
    if dataset in VFAT_DATASETS and any(canonical(model) in VFAT_MODELS for model in models):
        return values
    return values[values["model"] == other]


def beside_vfat(scores: pd.DataFrame, other: str | None = None, dataset: str | None = None) -> pd.DataFrame:
    """VF's accuracy and VRS beside ours, by format and level.

    Args:
        scores: of `metrics.vfat_scores` by format and level, its models called by registered name, hub id or folder.
            Published are values of generated answers, so only rows of that reading get any, and of `REASONING` only
            those whose `mode`, where it is known, is `thinking`.
        other: the VF model whose values stand beside a model that VF does not have; None: nothing does.
        dataset: the data of the scores; VF's values are of V-FAT, so nothing stands beside others than
            `VFAT_DATASETS`. None takes the scores to be of these.

    Returns:
        A new table with `mAcc_published`, `VRS_published` (as fractions) and `published_source`.

    Raises:
        ValueError: VF has no model `other`.
    """
    values = published_vfat()
    if other is not None and other not in VFAT_MODELS.values():
        near = get_close_matches(other, VFAT_MODELS.values(), n=3, cutoff=0.3) or VFAT_MODELS.values()
        raise ValueError(f"VF has no model {other!r}; near: {', '.join(near)}")
    ours = scores["model"] if "model" in scores else pd.Series("", index=scores.index)
    names = {model: VFAT_MODELS.get(canonical(model), other or "") for model in ours.unique()}
    keys = pd.MultiIndex.from_arrays([ours.map(names), scores["format"], scores["level"]])
    said = (scores["reading"] == "generation").to_numpy() & (
        dataset is None or dataset in VFAT_DATASETS or other is not None
    )
    if "mode" in scores:
        said &= (~ours.map(names).isin(REASONING) | (scores["mode"] == "thinking")).to_numpy()
    columns, sources = {}, []
    for measure in ("mAcc", "VRS"):
        part = values[values["measure"] == measure].set_index(["model", "format", "level"])
        columns[f"{measure}_published"] = part["value"].reindex(keys).where(said).to_numpy()
        sources.append(part["source"].reindex(keys).where(said).fillna("").to_numpy())
    source = [" / ".join(filter(None, pair)) for pair in zip(*sources, strict=True)]
    return scores.assign(**columns, published_source=source)
