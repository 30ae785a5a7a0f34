"""Tables of POPE: hallucination, the language prior, drift of answers to the prior (HI 7, App. D; METHODS 12).

Yes is the positive class. The yes-no margin is s(Yes) - s(No) by the study's rule. A question's *case* is its base
answer / its truth; its *prior* is what the model says of it on a blank image (family `blank`).

Records in, tidy tables out; what counts, the order of families and the intervals are as in `vfkit.metrics.flips`.
Rows are joined by sample id, never by order. In every table here

- a row counts if its question is a yes/no one with a known truth and its base was read; where the table says so, what
  is left out is counted. `samples` is a run's `samples()`: where Yes stands among a question's options. Without it
  the options are taken to be (Yes, No);
- each blank is a family of its own (`blank_white`, `blank_none`) and no part of the union.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import wilcoxon

from vfkit.metrics import stats
from vfkit.metrics.frames import ANSWERS, family_order, need, numbers, rows_of, split_answers, twice, with_union
from vfkit.metrics.tabulate import (
    count,
    difference,
    distinct,
    mean,
    median,
    product_index,
    rate,
    ratio,
    tabulate,
    total,
)

CASES = {"Yes/Yes": "hit", "No/No": "correct rejection", "Yes/No": "hallucination", "No/Yes": "miss"}
HALLUCINATION, HIT = "Yes/No", "Yes/Yes"
SPLITS = ("random", "popular", "adversarial")
MEASURES = ("accuracy", "precision", "recall", "F1", "FPR", "yes_rate")
MIN_GAP = 0.1  # nats between base and blank margin, below which a share of the way is not defined
FILL = "white"


def pope_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """POPE's metrics on base images and under each family, with paired differences to the base (HI 7).

    Returns:
        Rows (`category`, `family`): all questions, then each split; `base`, then each family. `questions`, `instances`;
        `accuracy`, `precision`, `recall`, `F1`, `FPR` (false positives / questions whose truth is No), `yes_rate`, each
        with its interval; `<measure>_difference`, with interval: the family's value minus that of the base answers to
        the same instances. `left_out`: instances of the family that do not count (not applicable, not read, no truth,
        no base, no yes/no question).
    """
    whole = pope_answers(records, samples)
    base = whole[whole.is_base].assign(family="base")
    whole = twice(pd.concat([base, with_union(whole)], ignore_index=True), "category")
    rows = whole[whole.counts].copy()
    index = product_index(category=["all", *_splits(whole)], family=["base", *family_order(whole)])
    shares, differences = {}, {}
    for name, (top, bottom) in _RATIOS.items():
        for when, answer in (("now", rows.says), ("then", rows.said)):
            rows[f"{name}_{when}"], rows[f"{name}_{when}_of"] = top(answer, rows.true), bottom(answer, rows.true)
        now, then = (f"{name}_now", f"{name}_now_of"), (f"{name}_then", f"{name}_then_of")
        shares[name], differences[f"{name}_difference"] = rate(*now), difference(*now, *then)
    table = tabulate(rows, index, _COUNTS | shares)
    table = table.join(tabulate(whole[~whole.counts], index, {"left_out": count()}))
    return table.join(tabulate(rows[rows.family != "base"], index, differences)).reset_index()


def pope_transition_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count where the answers of each base case go: four transition tables in one (METHODS 12).

    Returns:
        Rows (`case`, `family`), case = base answer / truth: its `meaning`, the case it `becomes` by a flip;
        `questions`, `instances`, `stays`, `flips`, `flip_rate` = flips / instances with its interval.
    """
    rows = pope_rows(records, samples).assign(stays=lambda rows: ~rows.flip)
    columns = {"stays": total("stays"), "flips": total("flip"), "flip_rate": rate("flip")}
    table = tabulate(rows, _index(rows), _COUNTS | columns)
    case = table.index.get_level_values("case")
    table.insert(0, "meaning", case.map(CASES))
    table.insert(1, "becomes", [("No" if one[0] == "Y" else "Yes") + one[one.index("/") :] for one in case])
    return table.reset_index()


def pope_margin_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Yes-no margins by base case, for all instances and those whose answer was kept or flipped (HI 7).

    Returns:
        Rows (`case`, `family`, `answer`): `questions`, `instances`; means in nats with their intervals: `base` (of the
        base images of these instances), `margin` (perturbed), `change` = margin - base. Positive means Yes.
    """
    rows = split_answers(pope_rows(records, samples))
    rows["change"] = rows.m - rows.m_base
    means = {"base": mean("m_base"), "margin": mean("m"), "change": mean("change")}
    return tabulate(rows, _index(rows, answer=ANSWERS), _COUNTS | means).reset_index()


def question_priors(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Language prior of each question: what the model says on each blank (HI 7, Figure 12).

    Returns:
        One row per question and `fill`: `sample_id`, `image_id`, `category`, `case`; `base_margin`, `blank_margin`
        (yes-no, nats); `base_yes`, `prior` = P(Yes | question, image) on base and blank, normalised over Yes and No.
    """
    rows = pope_answers(records, samples)
    rows = rows[rows.counts & rows.fill.notna()]
    table = rows[["sample", "image", "category", "case", "fill"]].rename(
        columns={"sample": "sample_id", "image": "image_id"}
    )
    table = table.assign(base_margin=rows.m_base, blank_margin=rows.m, base_yes=expit(rows.m_base), prior=expit(rows.m))
    return table.sort_values(["fill", "sample_id"], ignore_index=True)


def prior_table(records: pd.DataFrame, samples: pd.DataFrame | None = None, min_gap: float = MIN_GAP) -> pd.DataFrame:
    """The language prior by split and base case (HI 7: the blank image answers No nearly always).

    Returns:
        Rows (`fill`, `group`): all questions, each split, each base case. `questions`; means with their intervals:
        `prior` = P(Yes | question, blank), `base_yes` = P(Yes | question, image), `blank_margin` and `base_margin`
        (nats), `blank_yes_rate` (the blank says Yes), `same_rate` (it says what the image says), and `near_rate`: base
        and blank margin differ by less than `min_gap` nats.
    """
    rows = question_priors(records, samples).rename(columns={"sample_id": "sample", "image_id": "image"})
    near = (rows.base_margin - rows.blank_margin).abs() < min_gap
    says, said = rows.blank_margin > 0, rows.base_margin > 0
    rows = rows.assign(blank_yes_rate=says, same_rate=says == said, near_rate=near)
    groups = ["all", *_splits(rows), *CASES]
    parts = [rows.assign(group="all"), rows.assign(group=rows.category), rows.assign(group=rows.case)]
    columns = {"questions": count(), "images": distinct("image")}
    columns |= {name: mean(name) for name in ("prior", "base_yes", "blank_margin", "base_margin")}
    columns |= {name: rate(name) for name in ("blank_yes_rate", "same_rate", "near_rate")}
    index = product_index(fill=rows.fill.unique(), group=groups)
    return tabulate(pd.concat(parts, ignore_index=True), index, columns).reset_index()


def prior_drift_table(
    records: pd.DataFrame, samples: pd.DataFrame | None = None, fill: str = FILL, min_gap: float = MIN_GAP
) -> pd.DataFrame:
    """Drift to prior, (m_pert - m_base) / (m_blank - m_base): 0 stays at the base, 1 arrives at the prior (HI 7).

    Where base and blank margins nearly agree the quotient is noise divided by nearly nothing. So questions whose gap
    |m_blank - m_base| is below `min_gap` nats are left out and counted, and the median is taken, which no single
    quotient moves; `pooled` needs no such bound: it is the movement towards the prior summed, over the gaps summed.

    Returns:
        Rows (`case`, `family`), `all` cases first. `questions`, `instances`; `drift` (median over instances) and
        `pooled`, with their intervals; `towards_rate`: of the instances that moved at all, the share that moved
        towards the prior, with its interval; `p` of Wilcoxon's signed-rank test over images against no movement (each
        image's mean movement towards the prior, in nats), `p_holm` over the table's rows; `unmoved` instances; and left
        out: `near_zero` (the gap too small) and `no_blank` instances (this blank was not read).

    Raises:
        ValueError: no such blank in the records.
    """
    require_fill(records, fill)
    rows = twice(pope_rows(records, samples, fill), "case")
    gap = rows.m_blank - rows.m_base
    rows["movement"], rows["gap"] = (rows.m - rows.m_base) * np.sign(gap), gap.abs()
    rows["no_blank"], rows["near_zero"] = gap.isna(), rows.gap < min_gap
    rows["unmoved"] = (rows.movement == 0) & (rows.gap >= min_gap)
    used = rows[rows.gap >= min_gap]
    used = used.assign(share=used.movement / used.gap, towards=used.movement > 0, moved=used.movement != 0)
    index = _index(rows, cases=["all", *CASES])
    table = tabulate(used, index, _COUNTS | {"drift": median("share")})
    table = table.join(tabulate(rows, index, {"pooled": ratio("movement", "gap")}))
    table = table.join(tabulate(used, index, {"towards_rate": rate("towards", "moved")}))
    tests = {key: _movement_test(part) for key, part in used.groupby(["case", "family"])}
    table["p"] = [tests.get(key, np.nan) for key in table.index]
    table["p_holm"] = stats.holm(table["p"])
    left_out = {name: total(name) for name in ("unmoved", "near_zero", "no_blank")}
    return table.join(tabulate(rows, index, left_out)).reset_index()


def by_case(
    make: Callable[..., pd.DataFrame], records: pd.DataFrame, samples: pd.DataFrame | None = None, **options
) -> pd.DataFrame:
    """Make any table of `vfkit.metrics` for each base case: `by_case(drift_table, records, vectors=..., controls=...)`.

    Returns:
        The rows of all tables, with `case` as first column; cases that do not occur are left out. Vectors and
        controls are the whole run's, so that every case meets the same controls.
    """
    rows = pope_answers(records, samples).sort_index()
    known = rows["sample"].isin(rows["sample"][rows.counts & rows.is_base])
    case = rows["case"].where(known).to_numpy(dtype=object)
    there = set(case[rows.counts & ~rows.is_base])
    tables = [make(records[case == one], **options).assign(case=one) for one in CASES if one in there]
    if not tables:
        return pd.DataFrame(columns=["case"])
    table = pd.concat(tables, ignore_index=True)
    return table[["case", *(name for name in table if name != "case")]]


# --- the frame all of them work on ------------------------------------------------------------------------------------


def pope_answers(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Join every record to its question's base: the frame of all tables here.

    Returns:
        `says`, `said`, `true` (is it Yes? perturbed, base, truth), `m`, `m_base` (yes-no margins), `case`, `fill` (of
        blanks), and whether the row `counts`. Of a hosted model, which gives answers only, margins are NaN. A frame of
        this kind is returned as it is: tables take either.
    """
    if {"says", "said", "true"} <= set(records):
        return records
    rows = rows_of(records, "answer", "margin", "category")
    rows["instance"] = records["instance"].astype(str).to_numpy(dtype=object)
    blank = rows.family == "blank"
    rows["fill"] = rows.instance.str.removeprefix("blank_").where(blank)
    rows["family"] = rows.instance.where(blank, rows.family)
    yes = rows["sample"].map(_yes(records, samples)).astype(float)
    truth = rows["sample"].map(rows[rows.is_base].set_index("sample")["answer"])  # a question has one truth
    needed = ["prediction", "base", *(["margin", "base_row"] if rows.margin.notna().any() else [])]  # or answers only
    rows["counts"] = rows[needed].notna().all(axis=1) & yes.notna()
    rows["counts"] &= truth.notna()
    rows["says"], rows["said"], rows["true"] = rows.prediction == yes, rows.base == yes, truth == yes
    rows["m"] = np.where(rows.says, rows.margin, -rows.margin)
    rows["m_base"] = np.where(rows.said, rows.base_row, -rows.base_row)
    word = {True: "Yes", False: "No"}
    rows["case"] = rows.said.map(word) + "/" + rows.true.map(word)
    return rows.sort_values(["sample", "family", "instance"]).drop(columns=["answer", "margin", "base_row"])


def _yes(records: pd.DataFrame, samples: pd.DataFrame | None) -> pd.Series:
    """The index of Yes among the options of every yes/no question, by sample id."""
    if samples is None:
        two = numbers(records["n_options"]) == 2
        return pd.Series(0, index=records["sample_id"][two].unique())
    words = [[str(option).strip().lower() for option in options] for options in samples["options"]]
    yes = [each.index("yes") if sorted(each) == ["no", "yes"] else np.nan for each in words]
    return pd.Series(yes, index=samples["sample_id"])


def pope_rows(records: pd.DataFrame, samples: pd.DataFrame | None, fill: str = FILL) -> pd.DataFrame:
    """The perturbed rows that count, blanks not among them, with their union and `m_blank`."""
    rows = pope_answers(records, samples)
    blank = rows[rows.counts & (rows.fill == fill)].set_index("sample")["m"]
    rows["m_blank"] = rows["sample"].map(blank).astype(float)
    return with_union(rows[rows.counts & rows.fill.isna()]).reset_index(drop=True)


def require_fill(records: pd.DataFrame, fill: str) -> None:
    if "fill" in records:  # of `pope_answers`
        blanks = records["fill"].dropna().unique()
    else:
        need(records, "records", "family", "instance")
        blanks = records["instance"][records["family"] == "blank"].str.removeprefix("blank_").unique()
    if fill not in blanks:
        there = f"there are {', '.join(sorted(blanks))}" if len(blanks) else "there is none"
        raise ValueError(f"no blank {fill!r} among the records, {there}: a study's family `blank` takes it as a fill")


def _index(rows: pd.DataFrame, cases: Sequence[str] = tuple(CASES), **axes: Sequence[str]) -> pd.MultiIndex:
    return product_index(case=cases, family=family_order(rows), **axes)


_COUNTS = {"questions": distinct("sample"), "images": distinct("image"), "instances": count()}


def _splits(rows: pd.DataFrame) -> list[str]:
    """POPE's splits that occur, in its own order, then other categories; none where there is but one."""
    splits = sorted(set(rows["category"]) - {"all"}, key=lambda one: (SPLITS.index(one) if one in SPLITS else 9, one))
    return splits if len(splits) > 1 else []


# numerator and denominator of each of `MEASURES`, row by row, from: says Yes, is Yes
_RATIOS = {
    "accuracy": (lambda yes, true: yes == true, lambda yes, true: yes | ~yes),
    "precision": (lambda yes, true: yes & true, lambda yes, true: yes),
    "recall": (lambda yes, true: yes & true, lambda yes, true: true),
    "F1": (lambda yes, true: 2 * (yes & true), lambda yes, true: yes * 1 + true * 1),
    "FPR": (lambda yes, true: yes & ~true, lambda yes, true: ~true),
    "yes_rate": (lambda yes, true: yes, lambda yes, true: yes | ~yes),
}


def _movement_test(rows: pd.DataFrame) -> float:
    means = rows.groupby("image")["movement"].mean().to_numpy()
    return float(wilcoxon(means).pvalue) if means.any() else 1.0
