"""Yes or no: hallucination, the language prior, and whether perturbed answers drift to it (HI 7, App. D; METHODS 12).

Yes is the positive class. The yes-no margin is s(Yes) - s(No) by the study's rule. A question's *case* is its base
answer / its truth; its *prior* is what the model says of it on a blank image (family `blank`).

Records in, tidy tables out; what counts, the order of families and the intervals are as in `vfkit.metrics.flips`.
Rows are joined by sample id, never by order. In every table here

- a row counts if its question is a yes/no one with a known truth and its base was read; where the table says so, what
  is left out is counted. `samples` is a run's `samples()`: where Yes stands among a question's options. Without it
  the options are taken to be (Yes, No);
- each blank is a family of its own (`blank_white`, `blank_none`) and no part of the union.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import wilcoxon

from vfkit.metrics import stats
from vfkit.metrics.frames import (
    ANSWERS,
    family_order,
    intervals,
    need,
    numbers,
    rows_of,
    split_answers,
    twice,
    with_counts,
    with_interval,
    with_union,
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
    whole = _answers(records, samples)
    base = whole[whole.is_base].assign(family="base")
    whole = twice(pd.concat([base, with_union(whole)], ignore_index=True), "category")
    rows = whole[whole.counts]
    categories = ["all", *_splits(whole)]
    index = pd.MultiIndex.from_product([categories, ["base", *family_order(whole)]], names=["category", "family"])
    table = _counts(pd.DataFrame(index=index), rows, whole)
    now, then = _ratios(rows.says, rows.true), _ratios(rows.said, rows.true)
    table = intervals(table, rows, now)
    there = rows.family != "base"
    pairs = {f"{name}_difference": [column[there] for column in (*now[name], *then[name])] for name in now}
    table = intervals(table, rows[there], pairs)
    return with_counts(table, "questions", "instances", "left_out")


def pope_transition_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Where the answers of each base case go: four transition tables, one below the other (METHODS 12).

    Returns:
        Rows (`case`, `family`), case = base answer / truth: its `meaning`, the case it `becomes` by a flip;
        `questions`, `instances`, `stays`, `flips`, `flip_rate` = flips / instances with its interval.
    """
    rows = pope_rows(records, samples)
    table = _skeleton(rows)
    case = table.index.get_level_values("case")
    table["meaning"] = case.map(CASES)
    table["becomes"] = [("No" if one[0] == "Y" else "Yes") + one[one.index("/") :] for one in case]
    table = _counts(table, rows)
    table["flips"] = rows.groupby(["case", "family"])["flip"].sum()
    table["stays"] = table["instances"] - table["flips"]
    table = intervals(table, rows, {"flip_rate": (rows.flip, rows.one)})
    return with_counts(table, "questions", "instances", "stays", "flips")


def pope_margin_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Yes-no margins by base case, for all instances and those whose answer was kept or flipped (HI 7).

    Returns:
        Rows (`case`, `family`, `answer`): `questions`, `instances`; means in nats with their intervals: `base` (of the
        base images of these instances), `margin` (perturbed), `change` = margin - base. Positive means Yes.
    """
    rows = split_answers(pope_rows(records, samples))
    table = _skeleton(rows, "answer")
    table = _counts(table, rows)
    means = {"base": rows.m_base, "margin": rows.m, "change": rows.m - rows.m_base}
    table = intervals(table, rows, {name: (column, rows.one) for name, column in means.items()})
    return with_counts(table, "questions", "instances")


def question_priors(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """The language prior of every question that has one: what the model says on each blank (HI 7, Figure 12).

    Returns:
        One row per question and `fill`: `sample_id`, `image_id`, `category`, `case`; `base_margin`, `blank_margin`
        (yes-no, nats); `base_yes`, `prior` = P(Yes | question, image) on base and blank, normalised over Yes and No.
    """
    rows = _answers(records, samples)
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
    rows = rows.assign(blank_yes_rate=says, same_rate=says == said, near_rate=near, one=1.0)
    groups = ["all", *_splits(rows), *CASES]
    parts = [rows.assign(group="all"), rows.assign(group=rows.category), rows.assign(group=rows.case)]
    rows = pd.concat(parts, ignore_index=True)
    index = pd.MultiIndex.from_product([rows.fill.unique(), groups], names=["fill", "group"])
    table = pd.DataFrame(index=index)
    table["questions"] = rows.groupby(["fill", "group"]).size()
    names = ("prior", "base_yes", "blank_margin", "base_margin", "blank_yes_rate", "same_rate", "near_rate")
    return with_counts(intervals(table, rows, {name: (rows[name], rows.one) for name in names}), "questions")


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
    table = _skeleton(rows, cases=["all", *CASES])
    table = _counts(table, used)
    median = stats.median(used.movement / used.gap, used.image, pd.MultiIndex.from_frame(used[["case", "family"]]))
    table = with_interval(
        table, "drift", median.set_axis(pd.MultiIndex.from_tuples(median.index, names=table.index.names))
    )
    table = intervals(table, rows, {"pooled": (rows.movement, rows.gap)})
    moved = (used.movement != 0).astype(float)
    table = intervals(table, used, {"towards_rate": (used.movement > 0, moved)})
    tests = {key: _movement_test(part) for key, part in used.groupby(["case", "family"])}
    table["p"] = [tests.get(key, np.nan) for key in table.index]
    table["p_holm"] = stats.holm(table["p"])
    for name in ("unmoved", "near_zero", "no_blank"):
        table[name] = rows.groupby(["case", "family"])[name].sum()
    return with_counts(table, "questions", "instances", "unmoved", "near_zero", "no_blank")


def by_case(
    make: Callable[..., pd.DataFrame], records: pd.DataFrame, samples: pd.DataFrame | None = None, **options
) -> pd.DataFrame:
    """Any table of `vfkit.metrics` for each base case: `by_case(drift_table, records, vectors=..., controls=...)`.

    Returns:
        The tables one below the other, with `case` as first column; cases that do not occur are left out. Vectors and
        controls are the whole run's, so that every case meets the same controls.
    """
    rows = _answers(records, samples).sort_index()
    known = rows["sample"].isin(rows["sample"][rows.counts & rows.is_base])
    case = rows["case"].where(known).to_numpy(dtype=object)
    there = set(case[rows.counts & ~rows.is_base])
    tables = [make(records[case == one], **options).assign(case=one) for one in CASES if one in there]
    if not tables:
        return pd.DataFrame(columns=["case"])
    table = pd.concat(tables, ignore_index=True)
    return table[["case", *(name for name in table if name != "case")]]


# --- the frame all of them work on ------------------------------------------------------------------------------------


def _answers(records: pd.DataFrame, samples: pd.DataFrame | None) -> pd.DataFrame:
    """Every record with its question's base: `says`, `said`, `true` (is it Yes? perturbed, base, truth), `m`, `m_base`
    (yes-no margins), `case`, `fill` (of blanks), and whether it `counts`."""
    rows = rows_of(records, "answer", "margin", "category")
    rows["instance"] = records["instance"].astype(str).to_numpy(dtype=object)
    blank = rows.family == "blank"
    rows["fill"] = rows.instance.str.removeprefix("blank_").where(blank)
    rows["family"] = rows.instance.where(blank, rows.family)
    yes = rows["sample"].map(_yes(records, samples)).astype(float)
    truth = rows["sample"].map(rows[rows.is_base].set_index("sample")["answer"])  # a question has one truth
    rows["counts"] = rows[["prediction", "base", "margin", "base_row"]].notna().all(axis=1) & yes.notna()
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
    rows = _answers(records, samples)
    blank = rows[rows.counts & (rows.fill == fill)].set_index("sample")["m"]
    rows["m_blank"] = rows["sample"].map(blank).astype(float)
    return with_union(rows[rows.counts & rows.fill.isna()]).reset_index(drop=True)


def require_fill(records: pd.DataFrame, fill: str) -> None:
    need(records, "records", "family", "instance")
    blanks = records["instance"][records["family"] == "blank"].str.removeprefix("blank_").unique()
    if fill not in blanks:
        there = f"there are {', '.join(sorted(blanks))}" if len(blanks) else "there is none"
        raise ValueError(f"no blank {fill!r} among the records, {there}: a study's family `blank` takes it as a fill")


def _skeleton(rows: pd.DataFrame, *more: str, cases: list[str] | None = None) -> pd.DataFrame:
    axes = [list(cases or CASES), family_order(rows), *([ANSWERS] if more else [])]
    return pd.DataFrame(index=pd.MultiIndex.from_product(axes, names=["case", "family", *more]))


def _counts(table: pd.DataFrame, rows: pd.DataFrame, whole: pd.DataFrame | None = None) -> pd.DataFrame:
    keys = list(table.index.names)
    table["questions"] = rows.groupby(keys)["sample"].nunique()
    table["instances"] = rows.groupby(keys).size()
    return table if whole is None else table.assign(left_out=whole[~whole.counts].groupby(keys).size())


def _splits(rows: pd.DataFrame) -> list[str]:
    """POPE's splits that occur, in its own order, then other categories; none where there is but one."""
    found = sorted(set(rows["category"]) - {"all"}, key=lambda one: (SPLITS.index(one) if one in SPLITS else 9, one))
    return found if len(found) > 1 else []


def _ratios(yes: pd.Series, true: pd.Series) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Numerator and denominator of each of `MEASURES`, row by row."""
    one = pd.Series(1.0, index=yes.index)
    hit = (yes & true).astype(float)
    tops = (yes == true, hit, hit, 2 * hit, yes & ~true, yes)
    bottoms = (one, yes, true, yes.astype(float) + true, ~true, one)
    return dict(zip(MEASURES, zip(tops, bottoms, strict=True), strict=True))


def _movement_test(rows: pd.DataFrame) -> float:
    means = rows.groupby("image")["movement"].mean().to_numpy()
    return float(wilcoxon(means).pvalue) if means.any() else 1.0
