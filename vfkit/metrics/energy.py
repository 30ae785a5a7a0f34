"""Dirichlet energy of vision tokens, image spectra, and correlations of what moves inside (HI 3.3, 4.5, E; METHODS 9).

The energy is HI's smoothness measure: low where neighbouring tokens agree. Its change (perturbed - base) is tabulated
by family and answer, and correlated with drift, band power and margins.
"""

import numpy as np
import pandas as pd

from vfkit.measure import BANDS, MEASURES
from vfkit.metrics import stats
from vfkit.metrics.controls import distance_column
from vfkit.metrics.frames import (
    ANSWERS,
    base_value,
    counted_rows,
    family_order,
    numbers,
    require,
    rows_of,
    split_answers,
    with_union,
)
from vfkit.metrics.tabulate import correlation, count, distinct, family_index, mean, ratio, spread, tabulate, total


def dirichlet_table(records: pd.DataFrame) -> pd.DataFrame:
    """Change of the Dirichlet energy by family, for all instances, kept and flipped answers (HI 4.5, App. E).

    Returns:
        Rows (`family`, `answer` in all / kept / flipped) over counted instances with finite energies: `samples`,
        `images`, `instances`; `delta` = mean over instances of perturbed - base energy per edge, with its interval, and
        `delta_sd` over instances; `deviation`, the mean of |delta|, with interval and SD; `base`, the mean base energy
        per edge, with its interval; `delta_sum`, with interval and SD, the change of the sums over the grid;
        `grid_changed`, the instances whose grid is not the base image's: there a sum changes by the number of edges.
    """
    require(records, "dirichlet", "dirichlet_sum", "grid")
    rows = rows_of(records).assign(per_edge=numbers(records["dirichlet"]), whole=numbers(records["dirichlet_sum"]))
    rows["grid"] = records["grid"].to_numpy(dtype=object)
    rows["before"] = base_value(rows, "per_edge")
    rows["delta"], rows["delta_sum"] = rows.per_edge - rows.before, rows.whole - base_value(rows, "whole")
    rows["deviation"] = rows.delta.abs()
    rows["grid_changed"] = rows.grid != rows["sample"].map(rows[rows.is_base].set_index("sample")["grid"])
    rows = split_answers(counted_rows(with_union(rows)))
    rows = rows[np.isfinite(rows[["delta", "delta_sum"]]).all(axis=1)]
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    columns |= {"delta": mean("delta"), "delta_sd": spread("delta")}
    columns |= {"deviation": mean("deviation"), "deviation_sd": spread("deviation"), "base": mean("before")}
    columns |= {"delta_sum": mean("delta_sum"), "delta_sum_sd": spread("delta_sum")}
    columns |= {"grid_changed": total("grid_changed")}
    return tabulate(rows, family_index(rows, answer=ANSWERS), columns).reset_index()


def spectrum_table(records: pd.DataFrame, bands: tuple[str, ...] = BANDS) -> pd.DataFrame:
    """Power and phase by family, band and answer (HI F.4).

    Returns:
        Rows (`family`, `band`, `answer` in all / kept / flipped) over counted instances with finite power: `samples`,
        `images`, `instances`, and with their intervals: `base` and `power`, mean band power of base and perturbed
        image; `delta` = power - base; `relative` = delta / base, of these means, so that nearly blank images do not
        rule it; `coherence` and `phase`, the mean coherence with the base and its power-free form, where defined.
    """
    require(records, *(f"{name}_{band}" for name in MEASURES for band in bands))
    slim, parts = rows_of(records), []
    for band in bands:
        rows = slim.assign(band=band, **{name: numbers(records[f"{name}_{band}"]) for name in MEASURES})
        rows["before"] = base_value(rows, "power")
        parts.append(rows.assign(delta=rows.power - rows.before))
    rows = split_answers(counted_rows(with_union(pd.concat(parts, ignore_index=True))))
    rows = rows[np.isfinite(rows.delta)]
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count(), "base": mean("before")}
    columns |= {name: mean(name) for name in ("power", "delta", "coherence", "phase")}
    index = family_index(rows, band=bands, answer=ANSWERS)
    return tabulate(rows, index, columns | {"relative": ratio("delta", "before")}).reset_index()


def inside_correlations(
    records: pd.DataFrame, probe: str = "ctx_open", tap: str = "post_norm", distance: str = "cos"
) -> pd.DataFrame:
    """Correlate changes of energy, state, margin and spectrum, instance by instance within each family.

    The measures, each a change against the sample's base: `dirichlet` (energy per edge), `drift` (of the named probe,
    tap and distance), `margin` (of the base prediction over its best rival), `power_<band>` (the natural log of
    perturbed over base band power: ranked as the relative change is, but a halving weighs as much as a doubling) and
    `coherence_<band>` (1: unchanged).

    Returns:
        One row per family and pair (`first`, `second`): `instances` with both finite, `samples`; `spearman` and
        `pearson` with their intervals. Ranks are taken once. Empty where a measure is constant.
    """
    column = distance_column(distance, probe, tap)
    names = [f"{kind}_{band}" for kind in ("power", "coherence") for band in BANDS]
    require(records, column, "dirichlet", *names)
    rows = rows_of(records, "margin", "base_margin")
    rows["drift"] = numbers(records[column])
    rows["margin"] = rows.base_label - rows.base_row
    for name in ("dirichlet", *names):
        rows[name] = numbers(records[name])
        base = None if name.startswith("coherence") else base_value(rows, name).to_numpy()
        if name.startswith("power"):
            ratio = stats.divide(rows[name], base)
            rows[name] = np.log(ratio, out=np.full(len(rows), np.nan), where=ratio > 0)
        elif name == "dirichlet":
            rows[name] -= base
    rows = counted_rows(with_union(rows))
    firsts = {"dirichlet": ["drift", "margin", *names], "drift": ["margin", *names], "margin": names}
    pairs = [(first, second) for first, seconds in firsts.items() for second in seconds]
    parts = [rows.assign(first=x, second=y, x=rows[x], y=rows[y]) for x, y in pairs]
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[np.isfinite(rows[["x", "y"]]).all(axis=1)]
    groups = [(family, *pair) for family in family_order(parts[0]) for pair in pairs]
    index = pd.MultiIndex.from_tuples(groups, names=["family", "first", "second"])
    columns = {"instances": count(), "samples": distinct("sample"), "images": distinct("image")}
    columns |= {"spearman": correlation("x", "y", ranked=True), "pearson": correlation("x", "y", ranked=False)}
    return tabulate(rows, index, columns).reset_index()
