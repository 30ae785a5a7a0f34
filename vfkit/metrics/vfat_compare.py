"""V-FAT answers against each other: models, levels and formats on the same items (VF 4, Table 2, Figure 5).

All take the frame of `vfat_answers`; rows pair by item, level and format, never by order, and what one side lacks is
left out of a pair (`n` says how many pairs there are). Intervals as in `vfkit.metrics.vfat`.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from vfkit.judge import OUTCOMES
from vfkit.metrics import rules, stats
from vfkit.metrics.frames import need
from vfkit.metrics.vfat import (
    ALL,
    ANSWER,
    FORMATS,
    LEVELS,
    SHARES,
    cluster_column,
    in_order,
    indexed,
    source_columns,
    vfat_scores,
    with_pooled,
)

PAIRS = tuple(combinations(LEVELS, 2))
_SUMS = ["vision", "bias", "one"]
_DESIGN = ("L0", "L1", "L2", "L3")


def vfat_transitions(
    answers: pd.DataFrame, pairs: Sequence[tuple[str, str]] = PAIRS, cluster: str = "item"
) -> pd.DataFrame:
    """Where an item's answer goes from one level to another, as HI follows answers from base to perturbed image.

    L1 and L3 show the same image, and only L3 asserts something: `vision` at L1 that is `bias` at L3 is text pressure
    alone. L2 shows another image.

    Returns:
        One row per model, reading, rule, format (and `all`), pair of levels (`first`, `second`) and pair of outcomes
        (`start`, `end`): `n` items answered at both levels, `starts` those that begin at `start`, `count`, `share` =
        count / n, `rate` = count / starts with its interval.
    """
    need(answers, "answers", *ANSWER)
    groups = [*source_columns(answers), "format"]
    on, cells = [*groups, "item"], [*groups, "first", "second", "start", "end"]
    found = []
    for first, second in pairs:
        sides = [answers[answers["level"] == level] for level in (first, second)]
        for side in sides:
            _distinct(side, on)
        pair = sides[0].merge(sides[1][[*on, "outcome"]], on=on, suffixes=("", "_end"))
        found.append(
            with_pooled(pair, ["format"]).assign(first=first, second=second, start=lambda rows: rows["outcome"])
        )
    rows = pd.concat(found, ignore_index=True)
    rows = pd.concat([rows.assign(end=end) for end in OUTCOMES], ignore_index=True)
    rows["count"] = (rows["end"] == rows["outcome_end"]).astype(float)
    rates = stats.rate(rows["count"], rows["one"], rows[cluster_column(cluster)], pd.MultiIndex.from_frame(rows[cells]))
    rates = indexed(rates, cells)
    table = rows[[*groups, "first", "second"]].drop_duplicates()
    for name in ("start", "end"):
        table = table.merge(pd.Series(OUTCOMES, name=name), how="cross")
    table = table.set_index(cells)
    table["n"] = rows.groupby(cells[:-2]).size().floordiv(len(OUTCOMES)).reindex(table.index.droplevel([-2, -1])).array
    grouped = rows.groupby(cells)["count"]
    table = table.assign(starts=grouped.size(), count=grouped.sum()).fillna({"starts": 0, "count": 0})
    table = table.astype({"starts": int, "count": int}).assign(share=table["count"] / table["n"])
    table = table.assign(rate=rates["value"], rate_low=rates["low"], rate_high=rates["high"])
    return in_order(table.reset_index(), cells)


def vfat_differences(
    first: pd.DataFrame,
    second: pd.DataFrame,
    by: Sequence[str] = ("format", "level"),
    measures: Sequence[str] = ("mAcc", "mTDS", "VRS"),
    cluster: str = "item",
) -> pd.DataFrame:
    """Two models (sizes, modes) on the questions both answered: planted against clean, thinking against instruct.

    Args:
        first, second: answers of one model each.

    Returns:
        One row per reading, rule, group of `by` (and `all`) and `measure`: `n` questions in common, `items`, `first`,
        `second`, `delta` = first - second with its paired interval, `p` of swapping both sides' answers within items,
        `p_holm`, adjusted over all rows of a reading and rule, and `apart`: interval and test both exclude 0.
    """
    for side in (first, second):
        need(side, "answers", *ANSWER, *by)
    on = ["reading", "rule", "question"]
    sides = [
        side.drop(columns=["model", "mode"], errors="ignore").assign(question=_question(side))
        for side in (first, second)
    ]
    for side in sides:
        _distinct(side, on)
    others = [f"{name}_other" for name in _SUMS]
    rows = sides[0].merge(sides[1][[*on, *by, *_SUMS]], on=on, suffixes=("", "_other"))
    for name in by:  # that is the question's own
        rows = rows[rows[name] == rows[f"{name}_other"]]
    rows = with_pooled(rows, by)
    keys, unit = [*source_columns(rows), *by], cluster_column(cluster)
    groups = pd.MultiIndex.from_frame(rows[keys])
    columns = [rows[name] for name in (*_SUMS, *others)]
    sums, names = stats.cluster_sums(columns, rows[unit], groups)  # [column, unit, group]
    counts = rows.groupby(keys, sort=False)["item"].agg(n="size", items="nunique")
    tables = []
    for measure in measures:
        share = SHARES[measure]
        table = stats.of_sums(columns, stats.less(share), rows[unit], groups, kind="difference")
        table = table.rename(columns={"value": "delta", "low": "delta_low", "high": "delta_high"})
        table["first"], table["second"] = (share(*half.sum(axis=1)) for half in (sums[:3], sums[3:]))
        table["p"] = [rules.swaps(sums[:3, :, i], sums[3:, :, i], share) for i in range(len(names))]
        tables.append(indexed(table, keys).join(counts).assign(measure=measure))
    order = [*keys, "measure", "n", "items", "clusters", "first", "second", "delta", "delta_low", "delta_high", "p"]
    table = in_order(pd.concat(tables).reset_index()[order], [*keys, "measure"])
    adjusted = table.groupby(["reading", "rule"], sort=False)["p"].transform(stats.holm)
    table = table.assign(p_holm=adjusted.astype(float))
    return table.assign(apart=[rules.side(row, "delta") != 0 for row in table.to_dict("records")])


def vfat_pressure(answers: pd.DataFrame, cluster: str = "item") -> pd.DataFrame:
    """What a misleading sentence costs on the same image: L3 - L1, paired by item, per model, reading and format.

    Returns:
        As `vfat_differences`, `first` being L3 and `second` L1, with a column `model`.
    """
    need(answers, "answers", *ANSWER)
    tables = []
    for model, own in answers.assign(model=_models(answers)).groupby("model", sort=False):
        told, neutral = (own[own["level"] == level].assign(level="L3 - L1") for level in ("L3", "L1"))
        table = vfat_differences(told, neutral, ["format"], cluster=cluster)
        tables.append(table.assign(model=model))
    tables = tables or [vfat_differences(answers, answers, ["format"], cluster=cluster).assign(model="")]
    table = pd.concat(tables, ignore_index=True)
    return table[["model", *(name for name in table if name != "model")]]


def vfat_interaction(answers: pd.DataFrame, cluster: str = "item") -> pd.DataFrame:
    """Do common sense and a misleading sentence add up? A 2 x 2 design over the image and the prompt.

    L0 is the ordinary image with the neutral prompt, L1 the atypical image, L2 the asserted sentence, L3 both. Only
    items that were answered at all four levels count.

    Returns:
        One row per model, reading, rule and format (and `all`): `n` items by format, `items`; accuracies `L0` to `L3`;
        the effect of the `image` (L1 - L0), of the `sentence` (L2 - L0) and of `both` (L3 - L0); `interaction` = both -
        image - sentence with its interval, `p` of the sign-flip test over items, `p_holm` over the table, and the
        `verdict`: `worse together` (below 0), `better together`, or undecided.
    """
    need(answers, "answers", *ANSWER)
    own = answers[answers["level"].isin(_DESIGN)].assign(model=_models(answers))
    keys = ["model", *(name for name in source_columns(own) if name != "model"), "format"]
    unit = cluster_column(cluster)
    wide = own.pivot_table(index=[*keys, "item"], columns="level", values="vision", aggfunc="first")
    wide = wide.reindex(columns=list(_DESIGN)).dropna().reset_index()
    image = own.drop_duplicates([*keys, "item"])[[*keys, "item", unit]]
    wide = with_pooled(wide.merge(image, on=[*keys, "item"]) if unit != "item" else wide, ["format"])
    found = []
    for group, part in wide.groupby(keys, sort=False):
        share = part[list(_DESIGN)].mean()
        row = dict(zip(keys, group, strict=True)) | {"n": len(part), "items": part["item"].nunique()} | share.to_dict()
        row |= {"image": share.L1 - share.L0, "sentence": share.L2 - share.L0, "both": share.L3 - share.L0}
        one = np.ones(len(part))
        half = stats.difference((part.L3 + part.L0) / 2, one, (part.L1 + part.L2) / 2, one, part[unit]).iloc[0]
        ends = {"interaction": "value", "interaction_low": "low", "interaction_high": "high"}
        row |= {name: 2 * half[end] for name, end in ends.items()}
        moves = (part.L3 + part.L0 - part.L1 - part.L2).groupby(part[unit]).sum()
        found.append(row | {"images": int(half["clusters"]), "p": rules.sign_flips(moves)})
    table = pd.DataFrame(found, columns=[*keys, "n", "items", "images", *_DESIGN, "image", "sentence", "both",
                                         "interaction", "interaction_low", "interaction_high", "p"])  # fmt: skip
    table = table.assign(difference_low=table.interaction_low, difference_high=table.interaction_high)
    table = rules.decide(table, ("better together", "worse together", ""))
    return in_order(table.drop(columns=["difference_low", "difference_high"]), keys)


def vfat_scaling(
    answers: pd.DataFrame, params: Mapping[str, float | None] | None = None, reading: str = "generation"
) -> pd.DataFrame:
    """Size and inference mode (VF Table 2): accuracy by format and VRS over all levels and formats, model by model.

    Args:
        answers: of several models (`model`).
        params: billions of parameters by model, where known; models come in that order.
        reading: which reading of the answers.

    Returns:
        One row per model: `params`, `mode` (the answers' own column, as `Run.mode` names it; without one `thinking`
        where an answer held reasoning, else `instruct`), `n`, `items`, `mAcc_mcq`,
        `mAcc_oe`, `mTDS`, `VRS` with intervals; `reasoning`, mean characters of it; `unanswered`, the share of answers
        that are empty, most often because a reasoning was cut off; and `VRS_delta` from the first
        row's model on the same questions, with its paired interval.
    """
    need(answers, "answers", "model", *ANSWER)
    own = answers[answers["reading"] == reading]
    sizes = {name: (params or {}).get(name) for name in own["model"].unique()}
    names = sorted(sizes, key=lambda name: (sizes[name] is None, sizes[name] or 0))
    scores = vfat_scores(own, ["format", "level"])
    found = []
    for name in names:
        part, mine = scores[scores["model"] == name].set_index(["format", "level"]), own[own["model"] == name]
        reasoning = float(mine["reasoning"].mean())
        modes = mine["mode"].unique() if "mode" in mine else ["thinking" if reasoning else "instruct"]
        row = {"model": name, "params": sizes[name], "mode": ", ".join(modes)}
        whole = vfat_scores(mine, ()).iloc[0]
        row |= {"n": whole["n"], "items": whole["items"], "reasoning": reasoning}
        row["unanswered"] = float((mine["answer"] == "").mean())
        for measure in ("mTDS", "VRS"):
            row |= {f"{measure}{end}": whole[f"{measure}{end}"] for end in ("", "_low", "_high")}
        for form in FORMATS:
            cell = part.loc[(form, ALL)] if (form, ALL) in part.index else {}
            row |= {f"mAcc_{form}{end}": cell.get(f"mAcc{end}", np.nan) for end in ("", "_low", "_high")}
        pair = vfat_differences(mine, own[own["model"] == names[0]], (), ["VRS"]).iloc[0]
        row |= {f"VRS_{name}": pair[name] for name in ("delta", "delta_low", "delta_high")}
        found.append(row)
    return pd.DataFrame(found)


def vfat_correlations(scores: pd.DataFrame) -> pd.DataFrame:
    """How the shares of outcomes go together from model to model (VF Figure 5): every row of `scores` is one point.

    The three shares add to one, so that some correlation is negative whatever the models do.

    Args:
        scores: of `vfat_scores`, one row per model: filter it to one reading, format and level first.

    Returns:
        One row per pair of shares (`first`, `second`): `n` points, Pearson's `r` with its interval (Fisher's z; none
        below four points), empty below three points or where a share does not vary.
    """
    need(scores, "scores", "mAcc", "mTDS", "other_share")
    shares = scores.rename(columns={"mAcc": "vision", "mTDS": "bias", "other_share": "other"})
    found = []
    for first, second in combinations(OUTCOMES, 2):
        pair = shares[[first, second]].dropna()
        n, row = len(pair), {"first": first, "second": second, "n": len(pair)}
        r = low = high = np.nan
        if n >= 3 and (pair.std() > 1e-12).all():
            r = float(np.corrcoef(pair[first], pair[second])[0, 1])
            if n >= 4 and abs(r) < 1:
                z, half = np.arctanh(r), 1.959964 / np.sqrt(n - 3)
                low, high = np.tanh([z - half, z + half])
        found.append(row | {"r": r, "r_low": low, "r_high": high})
    return pd.DataFrame(found)


def _models(answers: pd.DataFrame) -> pd.Series | str:
    return answers["model"] if "model" in answers else ""


def _question(answers: pd.DataFrame) -> pd.Series:
    """What pairs rows, and stays as it is where levels or formats are pooled."""
    return answers["item"].str.cat([answers["level"], answers["format"]], sep="\x1f")


def _distinct(answers: pd.DataFrame, on: Sequence[str]) -> None:
    doubled = answers[list(on)].duplicated()
    if doubled.any():
        who = answers.loc[doubled.idxmax(), list(on)].to_dict()
        raise ValueError(f"{who} occurs twice: pairs are made of one answer each")
