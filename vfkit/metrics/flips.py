"""Tables of answers: flips, transitions, margins, accuracy (HI 3.2, 4.1, 4.2; METHODS 5, 6).

What counts, the order of families and the intervals are as in `vfkit.metrics.frames`.
"""

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.frames import (
    base_value,
    by_family,
    counted_rows,
    family_order,
    rows_of,
    vulnerable_samples,
    with_counts,
    with_interval,
    with_union,
)
from vfkit.perturb import HI_FAMILIES
from vfkit.readout.rules import RULES, scores

TRANSITIONS = ("R->W", "W->R", "R->R", "W->W")
_PARTS = ("logp_text", "logp_end", "n_tokens", "logp_letter")


def flip_table(records: pd.DataFrame) -> pd.DataFrame:
    """Instance flip rate and image vulnerability per family (HI 3.2, Table 1).

    Returns:
        One row per family: `instances` counted, `flips`, `IFR` = flips / instances; `samples` with at least one counted
        instance, `vulnerable` (at least one flip), `IV` = vulnerable / samples; `per_sample` (instances per sample: IV
        grows with it); `tied` (counted instances with an exact tie at the top); and what was left out:
        `not_applicable` instances, and `no_base`, the samples whose base image has no prediction.
        The union row pools HI's six families; where fewer are present its label names them.
    """
    rows = with_union(rows_of(records, "tied"))
    counted = counted_rows(rows)
    per_sample = vulnerable_samples(counted)
    table = by_family(rows)
    table["instances"] = counted.groupby("family").size()
    table["flips"] = counted.groupby("family")["flip"].sum()
    table = with_interval(table, "IFR", stats.rate(counted.flip, counted.one, counted.image, counted.family))
    table["samples"] = per_sample.groupby("family").size()
    table["vulnerable"] = per_sample.groupby("family")["vulnerable"].sum()
    table = with_interval(
        table, "IV", stats.rate(per_sample.vulnerable, np.ones(len(per_sample)), per_sample.image, per_sample.family)
    )
    table["per_sample"] = table["instances"] / table["samples"]
    table["tied"] = counted.groupby("family")["tied"].sum()
    table["not_applicable"] = rows[rows.prediction.isna()].groupby("family").size()
    table["no_base"] = rows[rows.base.isna()].groupby("family")["sample"].nunique()
    return with_counts(table, "instances", "flips", "samples", "vulnerable", "tied", "not_applicable", "no_base")


def transition_table(records: pd.DataFrame) -> pd.DataFrame:
    """How correctness changes from base to perturbed answer (HI 4.2, Table 2), over samples with ground truth.

    Returns:
        One row per family: `samples`, `instances`, the counts `R->W`, `W->R`, `R->R`, `W->W` (which holds flips from
        one wrong answer to another), `R->W_rate` = R->W / base-correct instances, `W->R_rate` = W->R / base-wrong
        instances, and `no_answer`, the instances left out because their sample has no ground truth.
    """
    rows = with_union(rows_of(records, "answer"))
    counted = counted_rows(rows)
    known = counted[counted.answer.notna()]
    right, now = known.base == known.answer, known.prediction == known.answer
    table = by_family(rows)
    table["samples"] = known.groupby("family")["sample"].nunique()
    table["instances"] = known.groupby("family").size()
    kinds = {"R->W": right & ~now, "W->R": ~right & now, "R->R": right & now, "W->W": ~right & ~now}
    for name in TRANSITIONS:
        table[name] = kinds[name].groupby(known.family).sum()
    for name, start in (("R->W", right), ("W->R", ~right)):
        table = with_interval(table, f"{name}_rate", stats.rate(kinds[name], start, known.image, known.family))
    table["no_answer"] = counted[counted.answer.isna()].groupby("family").size()
    return with_counts(table, "samples", "instances", *TRANSITIONS, "no_answer")


def margin_table(records: pd.DataFrame) -> pd.DataFrame:
    """Margins (HI eq. 2) per family, for all counted instances and for those whose answer was kept or flipped.

    Returns:
        Rows (`family`, `answer` in all / kept / flipped); means in nats with their intervals: `base`, the margin on
        the base image; `margin`, the perturbed image's own; `base_label`, the perturbed score of the base prediction
        minus its best rival (negative iff flipped); `change` = base_label - base. `instances` and `samples` are those
        with finite margins (a single option has none).
    """
    rows = with_union(rows_of(records, "margin", "base_margin"))
    counted = counted_rows(rows)
    counted = counted[np.isfinite(counted[["base_row", "margin", "base_label"]]).all(axis=1)]
    counted = counted.assign(change=counted.base_label - counted.base_row)
    means = {"base": "base_row", "margin": "margin", "base_label": "base_label", "change": "change"}
    tables = []
    for answer, part in (("all", counted), ("kept", counted[~counted.flip]), ("flipped", counted[counted.flip])):
        table = by_family(rows).assign(answer=answer)
        table["instances"] = part.groupby("family").size()
        table["samples"] = part.groupby("family")["sample"].nunique()
        for name, column in means.items():
            table = with_interval(table, name, stats.mean(part[column], part.image, part.family))
        tables.append(with_counts(table, "instances", "samples"))
    order = {family: i for i, family in enumerate(family_order(rows))}
    return pd.concat(tables).sort_values("family", key=lambda f: f.map(order), kind="stable", ignore_index=True)


def accuracy_table(records: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on base images, overall and per category, and under each family, over samples with ground truth.

    Returns:
        Rows (`family`, `category`): `base` / `all`, then `base` by category, then each family / `all`. `samples`,
        `instances`, `correct`, `accuracy` with its interval, `chance` = mean of 1 / number of options, and
        `no_answer`, the instances left out because their sample has no ground truth.
    """
    rows = rows_of(records, "answer", "category", "n_options")
    base, perturbed = rows[rows.is_base], with_union(rows)
    blocks = [
        (base.assign(category="all"), ["base"], ["all"]),
        (base, ["base"], sorted(base.category.unique())),
        (perturbed.assign(category="all"), family_order(perturbed), ["all"]),
    ]
    tables = []
    for block, families, categories in blocks:
        block = block[block.prediction.notna() & block.base.notna()]
        known = block[block.answer.notna()]
        known = known.assign(right=(known.prediction == known.answer).astype(float), chance=1 / known.n_options)
        keys = ["family", "category"]
        table = pd.DataFrame(index=pd.MultiIndex.from_product([families, categories], names=keys))
        table["samples"] = known.groupby(keys)["sample"].nunique()
        table["instances"] = known.groupby(keys).size()
        table["correct"] = known.groupby(keys)["right"].sum()
        table = with_interval(
            table,
            "accuracy",
            stats.rate(known.right, np.ones(len(known)), known.image, pd.MultiIndex.from_frame(known[keys])),
        )
        table["chance"] = known.groupby(keys)["chance"].mean()
        table["no_answer"] = block[block.answer.isna()].groupby(keys).size()
        tables.append(with_counts(table, "samples", "instances", "correct", "no_answer"))
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def overlay_table(records: pd.DataFrame) -> pd.DataFrame:
    """Is it what the overlay says, or that something is covered? Paired comparisons on the same samples.

    Returns:
        One row per pair (`first`, `second`) of the overlay families present: text against random text (the same box and
        letters, no meaning), text and random text against an empty box. Columns as in `compare_table`.
    """
    counted = counted_rows(rows_of(records))
    present = set(counted.family)
    pairs = [("text_overlay", "random_text"), ("text_overlay", "box_overlay"), ("random_text", "box_overlay")]
    pairs = [pair for pair in pairs if present.issuperset(pair)]
    found = [_compare(*(counted[counted.family == family] for family in pair)) for pair in pairs]
    return _comparison(pd.DataFrame(pairs, columns=["first", "second"]), found)


def compare_table(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Two sets of records (two models, sizes, prompts) on the samples they share, per family.

    Returns:
        One row per family present in both: `samples` counted in both, `IFR_first`, `IFR_second`, their `difference`
        with its paired interval; `only_first`, `only_second` (samples vulnerable in one alone), McNemar's exact `p` on
        these, and `p_holm`, adjusted over the rows of the table.
    """
    counted = [counted_rows(with_union(rows_of(records))) for records in (first, second)]
    families = [family for family in family_order(counted[0]) if (counted[1].family == family).any()]
    found = [_compare(*(rows[rows.family == family] for rows in counted)) for family in families]
    return _comparison(pd.DataFrame({"family": pd.Series(families, dtype=object)}), found)


def rescore(records: pd.DataFrame, rule: str) -> pd.DataFrame:
    """The records as another scoring rule would have them (METHODS 5), from the stored parts; no model needed.

    Recomputes `prediction`, `tied`, `margin`, `base_prediction`, `base_margin`; instances that do not apply stay
    empty, and a sample without a base row gets no base prediction. The overlays were drawn to avoid the base
    prediction of the *study's* rule: where the base prediction differs here, one of them may name it.

    Raises:
        ValueError: unknown rule; `letter` where no letters were asked; parts missing or of unequal length.
    """
    if rule not in RULES:
        raise ValueError(f"unknown scoring rule {rule!r}; the rules are {', '.join(RULES)}")
    rows = rows_of(records, *_PARTS)
    read = np.flatnonzero(rows.prediction.notna())
    lists = {name: records[name].iloc[read].tolist() for name in _PARTS}
    lengths = [[len(part) if hasattr(part, "__len__") else 0 for part in parts] for parts in lists.values()]
    lengths = np.array(lengths, dtype=int)  # [part, row]
    uneven = (lengths != lengths[:1]).any(axis=0) | (lengths[0] == 0)
    if uneven.any():
        sample = rows["sample"].iloc[read[uneven][0]]
        raise ValueError(f"sample {sample!r}: the parts of its scores are missing or of unequal length")
    # every rule works number by number: one call for all options of all rows, then rows of one length together
    flat = scores(rule, *(np.concatenate([np.zeros(0), *parts]) for parts in lists.values()))
    length, start = lengths[0], np.cumsum(lengths[0]) - lengths[0]
    prediction, margin, base_label = np.full((3, len(rows)), np.nan)
    tied = np.zeros(len(rows), dtype=bool)
    blocks = []  # (row numbers, scores [row, option])
    for k in np.unique(length):
        blocks.append((read[length == k], flat[start[length == k, None] + np.arange(k)]))
    for where, values in blocks:
        prediction[where] = values.argmax(axis=1)
        tied[where] = (values == values.max(axis=1, keepdims=True)).sum(axis=1) > 1
    rows["prediction"] = prediction
    base = base_value(rows, "prediction")
    for where, values in blocks:
        if values.shape[1] < 2:
            continue
        top = np.sort(values, axis=1)
        margin[where] = top[:, -1] - top[:, -2]
        known = np.flatnonzero(base[where].notna())
        label = base[where].iloc[known].astype(int)
        others = values[known].copy()
        others[np.arange(len(known)), label] = -np.inf
        base_label[where[known]] = values[known, label] - others.max(axis=1)
    new = {"base_prediction": base, "prediction": prediction, "tied": tied, "margin": margin, "base_margin": base_label}
    new = {name: pd.Series(np.asarray(values), index=records.index) for name, values in new.items()}
    for name in ("base_prediction", "prediction"):
        new[name] = new[name].astype("Int64")
    new["tied"] = new["tied"].astype("boolean").where(new["prediction"].notna())
    return records.assign(**new)


def rule_table(records: pd.DataFrame) -> pd.DataFrame:
    """Base accuracy and flip rate under each scoring rule, from one set of records (see `rescore`).

    Returns:
        One row per rule: `samples`, `accuracy` with its interval and `chance` on base images; `family` (HI's families
        present, pooled), `instances`, `flips`, `IFR` with its interval. `letter` takes the samples whose options have
        letters; no numbers stand where there are none.
    """
    accuracy = ["samples", "accuracy", "accuracy_low", "accuracy_high", "chance"]
    flips = ["family", "instances", "flips", "IFR", "IFR_low", "IFR_high"]
    found = []
    for rule in RULES:
        scored = rescore(_lettered(records) if rule == "letter" else records, rule)
        table = flip_table(scored)
        ours = table.family.isin(HI_FAMILIES) | table.family.str.startswith("union (")
        pooled = table[ours & (table.instances > 0)].tail(1)
        found.append({"rule": rule} | accuracy_table(scored).iloc[0][accuracy].to_dict())
        found[-1] |= {} if pooled.empty else pooled.iloc[0][flips].to_dict()
    table = pd.DataFrame(found, columns=["rule", *accuracy, *flips])
    return with_counts(table, "samples", "instances", "flips")


def _lettered(records: pd.DataFrame) -> pd.DataFrame:
    """The records of samples whose options have letters."""
    none = records["logp_letter"].map(lambda parts: hasattr(parts, "__len__") and bool(np.isnan(parts).any()))
    return records[~records["sample_id"].isin(records["sample_id"][none.astype(bool)])]


def _compare(first: pd.DataFrame, second: pd.DataFrame) -> dict:
    """Paired flip rates and vulnerability of two sets of counted rows, on the samples they share."""
    found = stats.paired_difference(first, second, "flip", "one", on="sample", cluster="image")
    vulnerable = [rows.groupby("sample")["flip"].any() for rows in (first, second)]
    pair = pd.concat(vulnerable, axis=1, join="inner")
    return found | stats.mcnemar(pair.iloc[:, 0], pair.iloc[:, 1])


def _comparison(table: pd.DataFrame, found: list[dict]) -> pd.DataFrame:
    columns = ["samples", "first", "second", "difference", "low", "high", "only_first", "only_second", "p"]
    tests = pd.DataFrame(found, columns=columns, index=table.index)
    tests["p_holm"] = stats.holm(tests["p"])
    renamed = {"first": "IFR_first", "second": "IFR_second", "low": "difference_low", "high": "difference_high"}
    return table.join(tests.rename(columns=renamed))
