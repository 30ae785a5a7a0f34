"""Where each published number stands in our tables, and how uncertain it is itself (METHODS 18).

A place is a quantity of `vfkit.paper.ours` (`IFR`, `drift`, `VRS`, ...) of one model on one data set, by family and by
part: probe and distance of a drift, answer of an energy, level of a V-FAT score. Numbers that no run can give say why.
"""

import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from vfkit.metrics.frames import UNION
from vfkit.paper.values import DATASETS, FAMILIES, MODELS, SIZELESS, published
from vfkit.paper.vf import TABLE_2, VFAT_ITEMS, VFAT_MODELS
from vfkit.perturb import ATTACKS, HI_FAMILIES

GEOMETRIC = tuple(family for family in HI_FAMILIES if family != "text_overlay")
SHARES = (
    *("accuracy", "IFR", "IV", "R->W", "W->R", "R->R", "W->W", "R->W_rate", "W->R_rate", "corrected"),
    *("corrected_if_followed", "success_rate", "mAcc", "mTDS", "other_share", "VRS"),
)
HI_IMAGES, HI_PROBED, MMMU_IMAGES = 3500, 600, 847  # images of each of HI's runs, of its drift tables, of MMMU
_SETS = {theirs: ours for ours, theirs in DATASETS.items()}
_SETS |= {"SEEDBench_IMG (inferred)": "seedbench", "POPE adversarial": "pope", "V-FAT": "vfat"}
_OURS: dict[str, tuple[str, ...]] = {theirs: (ours,) for ours, theirs in [*MODELS.items(), *VFAT_MODELS.items()]}
_OURS |= {theirs: _OURS[name] for theirs, name in TABLE_2.items()}
_OURS |= {name: SIZELESS for name in ("unspecified (Qwen3-VL)", "Qwen3-VL (size not stated)", "Qwen3-VL (2B or 8B)")}
_OURS |= {"12 models pooled": tuple(VFAT_MODELS)}
_SEVERAL = {
    "Translation and Pad/Crop": ("translation", "pad_crop"),
    "geometric": GEOMETRIC,
    "geometric (max)": GEOMETRIC,
    "PGD pixel/low/high eps=8/255": ATTACKS,
    "none": ("base",),
    "all": (UNION,),
}
_MEANS = ("base_accuracy_mean", "IFR_mean", "IV_mean")  # of HI's four runs
_COUNTS = {"instances_with_GT", "n_instances", "n_samples", "n_random_pairs"}
_RENAMED = {
    "base_accuracy": "accuracy",
    "flip_rate_base_correct": "R->W_rate",
    "corrected_rate_base_wrong": "corrected",
    "uniform_compliance_reference": "corrected_if_followed",
    "attack_success_rate": "success_rate",
    "mean_flip_margin": "pope_margin",
    "n_flips": "IFR",
    "Acc": "mAcc",
    "VRS_avg": "VRS",
    "vision_consistent": "mAcc",
    "bias_error": "mTDS",
    "other_error": "other_share",
    "IFR_cross_run_sd_max": "IFR_sd",
    "IV_cross_run_sd_max": "IV_sd",
}
_PRINTED = ("value", "low", "high", "rounding")
_FLIPS_OF = 48000  # instances of translation that the published number of flips is of
_DRIFT = re.compile(r"^(?:(drift|control)_(mean|sd)_|(cohen_d)_|)(cosdist|cos|L2)_((?:ctx|ans)_\w+)$")


@cache
def _places() -> pd.DataFrame:
    values = published()
    rows = [{"number": number, **_place(row)} for number, row in enumerate(values.to_dict("records"))]
    table = values.join(pd.DataFrame(rows).set_index("number").drop(columns=["value"]))
    table["value"] = [row["value"] for row in rows]
    return table.assign(uncertainty=_uncertainty(table))


def places() -> pd.DataFrame:
    """All published numbers, in the order of `published`, with their places in our tables.

    Returns:
        The columns of `published`, `value` (a fraction for shares; the middle of a range; NaN for a bound) and:
        `models`, `data` (registered names), `quantity`, `families` (the statement is about each of them), `part`,
        `run` (HI's run 0 to 3; `mean` of the four), `low`, `high` (of a range or bound; infinite where open), `n` and
        `images` that the number rests on (NaN where unknown), `uncertainty` (one SD; see
        METHODS 18), and `reason`: empty, or why no run can stand beside it, `not comparable: ...` or `not possible:
        ...`.
    """
    return _places().copy()


def _place(row: dict[str, Any]) -> dict[str, Any]:
    """The place of one published number."""
    metric = row["metric"].removesuffix("_mean") if row["metric"] in _MEANS else row["metric"]
    place: dict[str, Any] = {
        "models": _OURS.get(row["model"], ()),
        "data": _SETS.get(row["dataset"], ""),
        "quantity": _RENAMED.get(metric, metric),
        "families": _SEVERAL.get(row["family"]) or (FAMILIES.get(row["family"], row["family"]),),
        "part": "",
        "run": _run(row),
        "reason": _reason(row),
    }
    unit = "" if metric == "drift_percent_of_control" else row["unit"]  # our column is in per cent too
    place |= _printed(row["printed"], unit) | _sample_size(row)
    if drift := _DRIFT.match(metric):
        kind, moment, _, distance, probe = drift.groups()
        place["part"] = f"{'cos' if distance.startswith('cos') else 'L2'} {probe}"
        place["quantity"] = {None: "", "mean": "", "sd": "_sd"}[moment]
        place["quantity"] = (kind or ("d" if metric.startswith("cohen") else "drift")) + place["quantity"]
        if metric.startswith("cos_"):
            place["quantity"] = "cosine"
    elif metric == "drift_percent_of_control":
        place |= {"quantity": "percent", "part": "cos ans_mcq_free", "images": HI_PROBED}
    elif energy := re.match(r"^dirichlet_delta_(?:mean|sd)(_flips|_example)?$", metric):
        place["quantity"] = "energy_sd" if "_sd" in metric else "energy"
        place["part"] = "flipped" if energy[1] == "_flips" else "all"
    elif metric in ("R->W", "W->R", "R->R", "W->W"):
        place |= _as_share(row, place)
    elif metric == "n_flips":
        place |= {name: place[name] / _FLIPS_OF for name in _PRINTED} | {"n": _FLIPS_OF}
    elif metric == "IFR" and row["family"] == "geometric":
        place["families"] = GEOMETRIC[:-1]  # rotation is set apart there: it flips twice as many
    if row["paper"] == "VF":
        cell = re.match(r"^(MCQ|OE)?\s*(L\d)?", row["family"])
        assert cell is not None
        place |= {"families": ((cell[1] or "all").lower(),), "part": cell[2] or "all"}
    return place


def _run(row: dict[str, Any]) -> str:
    """HI's run that a number is of: `0` to `3`, or `mean`."""
    single = re.search(r"\(run (\d)\)", row["where"])
    if single:
        return single[1]
    return "mean" if row["metric"] in _MEANS else "0" if row["where"].startswith(("sec 4", "Table")) else ""


def _printed(text: str, unit: str) -> dict[str, float]:
    """Value, range and half a unit of the last digit (`rounding`) of a number as printed; shares as fractions."""
    scale = 0.01 if unit == "%" else 1.0
    numbers = [float(each) for each in re.findall(r"(?<![\d.])-?\d+(?:\.\d+)?", text.replace("+-", " "))]
    digits = [len(each.split(".")[1]) if "." in each else 0 for each in re.findall(r"\d+(?:\.\d+)?", text)]
    nothing = {"value": np.nan, "low": np.nan, "high": np.nan, "rounding": np.nan}
    if not numbers or re.search(r"[a-z]", text):
        return nothing
    first, rounding = scale * numbers[0], scale * 0.5 * 10.0 ** -digits[0]
    found = {"value": first, "low": first, "high": first, "rounding": rounding}
    if text.startswith(">"):
        return found | {"value": np.nan, "high": np.inf}
    if text.startswith("<"):
        return found | {"value": np.nan, "low": -np.inf}
    if re.fullmatch(r"[\d.]+-[\d.]+", text):
        second = scale * float(text.split("-")[1])
        return found | {"value": (first + second) / 2, "high": second}
    return found


def _sample_size(row: dict[str, Any]) -> dict[str, float]:
    """What a number rests on: `n` (instances, samples, answers) and `images` (V-FAT: items)."""
    counts = re.search(r"(\d+)/(\d+)", row["note"])
    if row["paper"] == "VF":
        items = VFAT_ITEMS if row["dataset"] == "V-FAT" else np.nan
        levels = 1 if re.search(r"L\d", row["family"]) else 3
        formats = 1 if row["family"].startswith(("MCQ", "OE")) else 2
        return {"n": items * levels * formats, "images": items}
    images = {"SEEDBench_IMG": HI_IMAGES, "SEEDBench_IMG (inferred)": 6000, "MMMU": MMMU_IMAGES}
    images |= {"POPE adversarial": 500}
    found = images.get(row["dataset"], np.nan)
    if _DRIFT.match(row["metric"]) and "Table 3" not in row["where"]:
        found = HI_PROBED
    return {"n": float(counts[2]) if counts else np.nan, "images": found * (4 if row["metric"] in _MEANS else 1)}


def _as_share(row: dict[str, Any], place: dict[str, Any]) -> dict[str, float]:
    """A count of a transition as its share of the instances with ground truth, which its table gives."""
    where = row["where"] if row["where"].startswith("Table 2") else "Table 2 (run 0)"
    total = _with_truth()[where, row["family"]]
    return {name: place[name] / total for name in _PRINTED} | {"n": total}


@cache
def _with_truth() -> dict[tuple[str, str], float]:
    """Instances with ground truth, by table and family."""
    table = published("HI", metric="instances_with_GT")
    return table.set_index(["where", "family"])["value"].to_dict()


def _reason(row: dict[str, Any]) -> str:
    """Why no run can stand beside a number; empty where one can."""
    metric, family = row["metric"], row["family"]
    if row["paper"] == "VF" and metric in ("count", "category_count"):
        return "not possible: a count of V-FAT's own items, which are not public"
    if metric in _COUNTS:
        return "not comparable: a size of the published study, which says nothing of a model"
    if metric == "dirichlet_delta_mean_example":
        return "not comparable: an example of no stated family"
    if family.startswith("unspecified"):
        return "not comparable: the paper does not say of which family"
    if row["where"] == "Table 1 (v1)" and family == "Any(union)" and metric == "IFR":
        return "not comparable: it pools eight families, as its note says; ours and the final table pool six"
    return ""


def _uncertainty(table: pd.DataFrame) -> pd.Series:
    """One SD of each number: the largest of rounding, the SD over HI's four runs, SD over images and binomial."""
    keys = ["quantity", "families", "part"]
    own = table["run"].isin(list("0123")) & table["where"].str.contains(r"\(run \d\)") & (table["reason"] == "")
    runs = table[own].groupby(keys)["value"].std()
    here = table["paper"].eq("HI") & table["models"].map(lambda models: models == ("qwen3vl_2b",))
    here &= table["data"].eq("seedbench")
    over_runs = runs.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy() / np.where(table["run"] == "mean", 2, 1)
    share = table["quantity"].isin(SHARES)
    p = table["value"].where(share, np.nan).clip(0, 1)
    binomial = np.sqrt(p * (1 - p) / table["n"].fillna(table["images"]))
    of_images = _published_spread(table) / np.sqrt(table["images"])
    parts = [table["rounding"], pd.Series(over_runs, table.index).where(here), binomial, of_images]
    return pd.concat(parts, axis=1).max(axis=1)


def _published_spread(table: pd.DataFrame) -> pd.Series:
    """The published SD over images beside each published mean of drift, control or energy."""
    keys = ["where", "model", "dataset", "family", "metric"]
    spread = table.set_index(keys)["value"]
    partner = table.assign(metric=table["metric"].str.replace("_mean", "_sd"))
    found = spread[~spread.index.duplicated()].reindex(pd.MultiIndex.from_frame(partner[keys])).to_numpy()
    return pd.Series(found, table.index).where(table["metric"].str.contains("drift_mean|control_mean|delta_mean"))
