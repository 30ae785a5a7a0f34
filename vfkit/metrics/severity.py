"""Flips and drift against the strength of a perturbation: what comes first, and when (METHODS 17).

The curves begin at strength 0, the base image itself, where nothing flips and nothing moves. What counts, what a flip
is and the intervals are as in `vfkit.metrics.frames`; whether an answer is kept is read from the prompt of the probe,
as in `vfkit.metrics.drift`, and a state has moved *beyond* its control where its drift exceeds the threshold of
`vfkit.metrics.hidden`.
"""

import json

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from vfkit.metrics import rules
from vfkit.metrics.controls import control_pairs, distance_column
from vfkit.metrics.drift import about_samples, moved_rows, of_probe
from vfkit.metrics.frames import need
from vfkit.metrics.hidden import PERCENTILE, beyond, beyond_rates
from vfkit.metrics.tabulate import count, distinct, mean, rate, tabulate, total
from vfkit.perturb import SEVERITY
from vfkit.perturb.severity import KINDS

LEVEL = 0.1  # the share of instances at which flips, or states, are said to set in
WITHIN = 0.05  # of all strengths: a lead whose interval lies within this much of zero is none
ALL = "all families"
LEADS = ("hidden instability precedes flips", "hidden instability follows flips", "they come together")
_RATES = ("IFR", "drift", "beyond", "hidden")


def severity_table(
    records: pd.DataFrame,
    controls: pd.DataFrame | None = None,
    probe: str = "ctx_mcq",
    tap: str = "post_norm",
    distance: str = "cos",
    percentile: float = PERCENTILE,
) -> pd.DataFrame:
    """Flip rate and drift by family and strength, the base image at strength 0.

    Args:
        controls: a run's same-question pairs; without them, and of runs without probes, only flips are counted.
        probe, tap, distance: of the state. The default probe is of the prompt whose scored option flips.
        percentile: of the same-question distances beyond which a state has moved as far as another image moves it.

    Returns:
        Rows (`family`, `strength`): `samples`, `images`, `instances`, `flips`; with their intervals `IFR`, `drift`
        (mean over instances), `beyond` (share that moved beyond the threshold) and `hidden` (share that did so with
        the answer kept); `control`, the mean same-question distance, and `percent` = 100 drift / control; `threshold`
        and `threshold_pairs` as in `drift_table`; `not_applicable`.
    """
    rows, pairs = _severity_rows(records, controls, probe, tap, distance)
    levels = {family: own for family, own in rows.groupby("family", sort=False)["strength"]}
    index = [(f, s) for f in SEVERITY if f in levels for s in sorted(levels[f].unique())]
    index = pd.MultiIndex.from_tuples(index, names=["family", "strength"])
    read = rows[rows.prediction.notna()]
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    table = tabulate(read, index, columns | {"flips": total("flip"), "IFR": rate("flip")})
    moved = read[np.isfinite(read["drift"])]
    table = table.join(tabulate(moved, index, {"drift": mean("drift")}))
    shares = [("beyond", "one", "one"), ("hidden", "kept", "one")]
    table = table.join(beyond_rates(moved, index, pairs, shares, percentile))
    table["control"] = pairs.groupby("sample")["drift"].mean().mean()
    table = table.join(tabulate(rows[rows.prediction.isna()], index, {"not_applicable": count()})).reset_index()
    none = {f"{name}{end}": 0.0 for name in _RATES for end in ("", "_low", "_high")}
    start = table.sort_values("samples").drop_duplicates("family", keep="last")
    start = start.assign(strength=0.0, instances=start.samples, flips=0, not_applicable=0, **none)
    unread = [name for name in none if table[name].isna().all()]
    table = pd.concat([start, table]).assign(**dict.fromkeys(unread, np.nan))
    order = pd.Series(range(len(SEVERITY)), index=list(SEVERITY))
    table = table.assign(rank=table["family"].map(order)).sort_values(["rank", "strength"], ignore_index=True)
    table["percent"] = 100 * table["drift"] / table["control"]
    return table.drop(columns="rank")


def onset_table(
    records: pd.DataFrame,
    controls: pd.DataFrame | None = None,
    probe: str = "ctx_mcq",
    tap: str = "post_norm",
    distance: str = "cos",
    level: float = LEVEL,
    percentile: float = PERCENTILE,
) -> pd.DataFrame:
    """At which strength answers flip, at which states pass their control, and which of the two comes first.

    Args:
        controls, probe, tap, distance, percentile: as in `severity_table`. level: the share that counts as onset.

    Returns:
        One row per family, then `all families`: `samples`, `images`, `instances`, `strengths`, `largest`;
        `flip_onset` and `drift_onset`, the strengths at which a share `level` of the instances flips, or moves beyond
        the threshold, with their intervals (`onset`; inf: not within these strengths; none for all families, whose
        units differ). `lead` = share beyond - share flipped over all strengths, paired by instance: the share of the
        strengths by which the state passes its control before the answer flips (below 0: after it), with its interval,
        which takes the threshold as an estimate; `eventful` images (either happens), `p` of the sign-flip test by
        image, `p_holm`, and `verdict` (`LEADS`).
    """
    curves = severity_table(records, controls, probe, tap, distance, percentile)
    rows, pairs = _severity_rows(records, controls, probe, tap, distance)
    rows = rows[rows.prediction.notna()]
    rows = pd.concat([rows, rows.assign(family=ALL)], ignore_index=True)
    present = [family for family in (*SEVERITY, ALL) if (rows.family == family).any()]
    index = pd.Index(present, name="family", dtype=object)
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count()}
    table = tabulate(rows, index, columns).reset_index()
    for name, rate_name in (("flip_onset", "IFR"), ("drift_onset", "beyond")):
        ends = [onset(curves[curves.family == family], rate_name, level) for family in index]
        table[[name, f"{name}_low", f"{name}_high"]] = np.reshape(ends, (len(index), 3)).astype(float)
    strengths = curves[curves.strength > 0].groupby("family")["strength"]
    table.insert(4, "strengths", table["family"].map(strengths.size()).fillna(0).astype(int))
    table.insert(5, "largest", table["family"].map(strengths.max()).astype(float))
    moved = rows[np.isfinite(rows["drift"])].assign(point="")
    lead = beyond_rates(
        moved, pd.MultiIndex.from_product([index, [""]], names=["family", "point"]), pairs, _LEAD, percentile
    )
    table = table.join(lead.reset_index(drop=True))
    tests = [_test(moved[moved.family == family], pairs, percentile) for family in index]
    table = table.join(pd.DataFrame(tests, columns=["eventful", "p"], index=table.index))
    row = {f"difference{end}": table[f"lead{end}"] for end in ("", "_low", "_high")}
    row |= {name: table[name] for name in ("images", "eventful", "p")}
    row |= {"alike": (table.lead_low > -WITHIN) & (table.lead_high < WITHIN)}
    decided = rules.decide(pd.DataFrame(row), LEADS)
    table["p_holm"] = decided["p_holm"]
    verdict = decided["verdict"].mask(table["lead_low"].isna(), rules.FEW_IMAGES)
    table["verdict"] = verdict.where(table["lead"].notna(), "")
    return table


def onset(curve: pd.DataFrame, name: str, level: float = LEVEL) -> tuple[float, float, float]:
    """The strength at which a rate reaches a level, and the interval of it.

    The rates are made monotone (isotonic regression) and joined by straight lines. The interval holds the strengths at
    which the interval of the rate, made monotone too, holds the level.

    Args:
        curve: rows of one family in the order of strength, from 0, with `name`, `<name>_low`, `<name>_high`.

    Returns:
        Strength, low, high; inf where a curve does not reach the level, NaN where there is no rate or no interval.
    """
    strength = curve["strength"].to_numpy(float)
    ends = (_crossing(strength, curve[f"{name}{end}"].to_numpy(float), level) for end in ("", "_high", "_low"))
    value, low, high = ends
    return value, low, high


def severity_finding(table: pd.DataFrame, onsets: pd.DataFrame, stricter: pd.DataFrame | None = None) -> str:
    """Which strengths flip answers, and whether states pass their control before. Markdown bullets.

    Args:
        table: of `severity_table`. onsets: of `onset_table`. stricter: of `onset_table` at the control's median.
    """
    need(table, "table", "family", "strength", "IFR")
    need(onsets, "table", "family", "flip_onset", "drift_onset", "lead", "verdict")
    lines, single = [], onsets[onsets.family != ALL]
    if table.empty:
        lines.append("No image was read at a strength above 0.")
    reached = single[np.isfinite(single.flip_onset)]
    if len(single):
        names = [f"{_short(row.family)} at {row.flip_onset:.3g} ({_unit(row.family)})" for row in reached.itertuples()]
        never = [_short(family) for family in single.family[np.isinf(single.flip_onset)]]
        text = f"Strengths at which {100 * LEVEL:.0f} % of the answers flip: {', '.join(names) or 'none'}"
        lines.append(text + f"; not reached by {', '.join(never)}" * bool(never) + ".")
    if unread := [_short(family) for family in table.family.unique() if family not in set(single.family)]:
        lines.append(f"Applied to no image: {', '.join(unread)}.")
    controls = {f"the closest {PERCENTILE} % of other images": onsets}
    controls |= {} if stricter is None else {"the median of other images": stricter}
    words = []
    for control, frame in controls.items():
        for row in frame[(frame.family == ALL) & (frame.verdict != "")].to_dict("records"):
            text = f"Held against {control} under the same question, the share of readings whose state moved further, "
            text += "minus the share whose answer flipped, is "
            text += f"{rules.shown(row, 'lead', unit=' points', signed=True)}: {row['verdict']}."
            lines.append(text)
            words.append(row["verdict"])
    if set(LEADS[:2]) <= set(words):
        lines.append("So which comes first depends on how far counts as far: neither holds for every control.")
    for word in [word for word in dict.fromkeys(single.verdict) if word]:
        own = [_short(family) for family in single.family[single.verdict == word]]
        lines.append(f"By family, against the closest {PERCENTILE} %, {word}: {', '.join(own)}.")
    return "\n".join(f"- {line}" for line in lines)


# --- parts ------------------------------------------------------------------------------------------------------------

_LEAD = [("lead", "one", "one", "flip")]


def _severity_rows(
    records: pd.DataFrame, controls: pd.DataFrame | None, probe: str, tap: str, distance: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the families with a strength, those that do not apply too, and the control's pairs.

    Rows: `family`, `strength`, `sample`, `image`, `category`, `flip` and `kept` by the probe's prompt, `drift`.
    """
    column = distance_column(distance, probe, tap)
    need(records, "records", "params", "family", column)
    records = records[records["family"].isin(["base", *SEVERITY])].reset_index(drop=True)
    strength = pd.Series([json.loads(one or "{}").get("strength", np.nan) for one in records["params"]], dtype=float)
    read = of_probe(moved_rows(records, [column]), probe)
    pairs = control_pairs(controls, column, about_samples(records))
    read = read.assign(drift=read[column], strength=strength, kept=~read["flip"], one=True)
    left = records[~records["applicable"].fillna(False).astype(bool)]
    left = pd.DataFrame({"family": left["family"], "strength": strength[left.index], "sample": left["sample_id"]})
    rows = pd.concat([read, left.assign(image=left["sample"], flip=False, kept=False, one=False)], ignore_index=True)
    return rows[rows["strength"] > 0], pairs


def _crossing(strength: np.ndarray, values: np.ndarray, level: float) -> float:
    if not len(values) or np.isnan(values).any():
        return np.nan
    fitted = isotonic_regression(values).x
    above = np.flatnonzero(fitted >= level - 1e-12)
    if not len(above):
        return np.inf
    i = above[0]
    if i == 0:
        return float(strength[0])
    share = (level - fitted[i - 1]) / (fitted[i] - fitted[i - 1])
    return float(strength[i - 1] + share * (strength[i] - strength[i - 1]))


def _test(rows: pd.DataFrame, pairs: pd.DataFrame, percentile: float) -> tuple[int, float]:
    """Images in which either happens, and p of the sign-flip test of beyond - flipped by image."""
    if not len(rows) or not len(pairs):
        return 0, np.nan
    rows = rows.assign(beyond=beyond(rows, pairs, percentile))
    either = (rows.beyond | rows.flip).groupby(rows["image"]).any()
    moves = (rows.beyond * 1.0 - rows.flip * 1.0).groupby(rows["image"]).sum()
    return int(either.sum()), rules.sign_flips(moves)


def _unit(family: str) -> str:
    return KINDS[_short(family)][1]


def _short(family: str) -> str:
    return family.removeprefix("severity_")
