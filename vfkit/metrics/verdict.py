"""Does drift cause hallucination? A verdict on yes/no records by stated criteria (HI 7; METHODS 12).

HI reads the fall of hallucinations under perturbation as a drift to the language prior. Two things mimic it:

- *selection*: hallucinations are picked for a high margin on the base image, so they fall on any other image. What
  arises anew is the contrast: Yes -> No is counted against No -> Yes over all questions whose truth is No;
- *shift*: if every answer leans further to No, hallucinations fall first, as their margins are small. The contrast is
  with questions whose truth is Yes and whose margin is as high. Margins are matched by the mean of base and perturbed
  image, which treats both alike (Oldham 1962): matched by the base margin, each group falls back to its own mean.

So suppression of fragile visual evidence needs three things: the blank image says No, hallucinations fall on balance,
and they fall more than hits of the same margin.
"""

import numpy as np
import pandas as pd

from vfkit.metrics import rules, stats
from vfkit.metrics.frames import pooled_family
from vfkit.metrics.pope import (
    FILL,
    HALLUCINATION,
    MIN_GAP,
    pope_answers,
    pope_rows,
    pope_table,
    prior_table,
    question_priors,
    require_fill,
)
from vfkit.metrics.tabulate import count, difference, distinct, family_index, rate, tabulate

IGNORED = 0.8  # share of questions that base and blank answer alike, above which the image counts as ignored
BINS = 8  # of margins, by quantiles of the questions whose truth is No
ALIKE = 0.25  # share of the false-positive rate within which it counts as unchanged
_TURNED = {
    "Yes/No": "hallucinations_lost",
    "Yes/Yes": "hits_lost",
    "No/No": "rejections_lost",
    "No/Yes": "misses_found",
}
CRITERIA = {
    "ignored": f"of all questions, the share whose yes-no margins with and without image lie within {MIN_GAP} nats is "
    f"above {IGNORED:.0%}",
    "prior_yes": "of the hallucinations, the share to which the blank image says Yes, too, is above one half",
    "prior_no": "of the hallucinations, the share to which the blank image says Yes, too, is below one half",
    "fall": "of all questions whose truth is No, fewer are answered Yes on perturbed than on base images: base minus "
    "perturbed false-positive rate is above 0",
    "unchanged": f"false-positive rates of base and perturbed images differ by less than {ALIKE:.0%} of their mean, "
    f"although answers change on {rules.EVENTFUL} images or more",
    "hits_fall": "at the margins of hallucinations, truths are lost as well: Yes -> No minus No -> Yes, as a share of "
    "the instances whose truth is Yes, is above 0",
    "fragile": "at the same margins, that share is larger where the truth is No than where it is Yes",
}


def verdict_table(
    records: pd.DataFrame, samples: pd.DataFrame | None = None, fill: str = FILL, min_gap: float = MIN_GAP
) -> pd.DataFrame:
    """The criteria of the verdict, and what the data say of each.

    Returns:
        One row per criterion: `name`, `criterion` in words, `value` with its 95 % interval (`low`, `high`), `questions`
        and `images` it rests on, `p_holm` (adjusted over prior, fall, hits_fall and fragile), and whether it `holds`:
        `yes`, `no` where the opposite is shown, else `undecided`. `unchanged` holds, or is undecided.
        Perturbed means the union of HI's families, or the only one there is.

    Raises:
        ValueError: no such blank in the records, or no yes/no question with a known answer.
    """
    require_fill(records, fill)
    records = pope_answers(records, samples)
    priors = question_priors(records)
    priors = priors[priors.fill == fill]
    if priors.empty:
        raise ValueError("there are no yes/no questions with a known answer among these records")
    rows = pope_rows(records, samples, fill)
    rows = rows[rows.family.isin(pooled_family(rows.family) or sorted(set(rows.family) - {"identity"})[-1:])]
    alike = (priors.base_margin - priors.blank_margin).abs() < min_gap
    near = stats.rate(alike, np.ones(len(priors)), priors.image_id).iloc[0]
    false, matched = rows[~rows.true], _matched(rows)
    wrong = rows[(rows.case == HALLUCINATION) & rows.m_blank.notna()].drop_duplicates("sample")
    one = np.ones(len(wrong))
    prior = _against(wrong.m_blank > 0, one, 0.5 * one, wrong)
    fall = _against(false.said, np.ones(len(false)), false.says, false, ALIKE)
    true = matched[matched.true]
    hits = _against(true.weight * true.said, true.weight, true.weight * true.says, true)
    found = {"prior": prior, "fall": fall, "hits_fall": hits, "fragile": _fragile(matched)}
    tests = rules.decide(pd.DataFrame(found.values(), index=list(found)), ("yes", "no", "yes"))
    tests["low"], tests["high"], tests["value"] = tests.difference_low, tests.difference_high, tests.difference
    ends = ["value", "low", "high"]
    if len(wrong):
        tests.loc["prior", ends] = stats.rate(wrong.m_blank > 0, one, wrong.image).iloc[0][ends].to_numpy()
    tests = pd.concat([tests, tests.loc[["fall"]].set_axis(["unchanged"])])
    held = tests.apply(lambda row: {1: "yes", -1: "no", 0: "undecided"}[rules.side(row)], axis=1)
    moved = false.image[false.said != false.says].nunique()
    held["unchanged"] = "yes" if tests.alike["unchanged"] and moved >= rules.EVENTFUL else "undecided"
    flipped = {"yes": "no", "no": "yes", "undecided": "undecided"}
    ignored = "yes" if near.low > IGNORED else "no" if near.high < IGNORED else "undecided"
    counts = {"prior": wrong, "fall": false, "unchanged": false, "hits_fall": true, "fragile": matched}
    table = [["ignored", near.value, near.low, near.high, len(priors), rows.image.nunique(),
              np.nan, ignored]]  # fmt: skip
    for name in list(CRITERIA)[1:]:
        own = "prior" if name.startswith("prior") else name
        part, row = counts[own], tests.loc[own]
        holds = flipped[held[own]] if name == "prior_no" else held[own]
        table.append([name, *row[ends], part["sample"].nunique(), part.image.nunique(), row.p_holm, holds])
    columns = ["name", "value", "low", "high", "questions", "images", "p_holm", "holds"]
    table = pd.DataFrame(table, columns=columns).astype({"questions": int, "images": int})
    table.insert(1, "criterion", table.name.map(CRITERIA))
    return table


def verdict(
    records: pd.DataFrame,
    model: str,
    dataset: str,
    samples: pd.DataFrame | None = None,
    fill: str = FILL,
    min_gap: float = MIN_GAP,
) -> str:
    """Give the verdict in plain words, from the data alone, as Markdown bullets.

    - The image is ignored: `ignored`. Prior and prediction are one, the extreme of language bias.
    - Language bias: `prior_yes`. The model would have said Yes without the image.
    - Suppression of fragile visual evidence: `prior_no`, `fall` and `fragile`.
    - A shift towards No: `fall` and `hits_fall`, but not `fragile`.
    - Selection: `unchanged`. As many hallucinations arise as are lost.
    - Undecided: all else, with what is missing.

    Of a hosted model, which gives answers but no margins, there is none; its metrics are said.
    """
    answers = pope_answers(records, samples)
    if answers.counts.any() and answers.m[answers.counts].isna().all():
        base = pope_table(answers).set_index(["category", "family"]).loc[("all", "base")]
        return (
            f"On {int(base.questions):,} yes/no questions of {dataset}, {model} is right in "
            f"{rules.shown(base, 'accuracy')}, with F1 {rules.shown(base, 'F1')}. No verdict: it gives answers but no "
            "scores, and prior and drift to it are differences of scores."
        )
    table = verdict_table(records, samples, fill, min_gap).set_index("name")
    base = pope_table(records, samples).set_index(["category", "family"]).loc[("all", "base")]
    priors = prior_table(records, samples, min_gap).set_index(["fill", "group"]).loc[(fill, "all")]
    questions = f"{int(base.questions):,} yes/no questions of {dataset}"
    lines = [f"{rules.shown(base, 'accuracy')} of {questions} are answered rightly by {model}."]
    if base.FPR == base.FPR:
        lines.append(f"{rules.shown(base, 'FPR')} of those whose truth is No are answered Yes.")
    where = "without image" if fill == "none" else f"on a {fill} image"
    lines.append(f"{rules.shown(priors, 'blank_yes_rate')} of all questions are answered Yes {where}.")
    lines.append(f"Verdict: {verdict_words(table, min_gap)}")
    return "\n".join(f"- {line}" for line in lines)


def verdict_words(table: pd.DataFrame, min_gap: float = MIN_GAP) -> str:
    """What a verdict table (indexed by `name`) amounts to; the verdict's name ends at the first full stop."""
    holds = table.holds.to_dict()
    of = {
        name: rules.shown(row, "value")
        for name, row in table.rename(columns={"low": "value_low", "high": "value_high"}).iterrows()
    }
    wrong = table.loc["prior_yes"]
    n = f"{wrong.questions} hallucination{'' if wrong.questions == 1 else 's'} on {wrong.images} image"
    n += "" if wrong.images == 1 else "s"
    if holds["ignored"] == "yes":
        return (
            "the image is ignored. Prior and prediction are the same: with and without the image the margins agree "
            f"within {min_gap} nats in {of['ignored']} of the questions. What the model answers is language bias alone."
        )
    if wrong.images < rules.EVENTFUL:
        return f"undecided. Found: {n}; by fewer than {rules.EVENTFUL} images nothing can be said of causes."
    if holds["prior_yes"] == "yes":
        return f"language bias. To {of['prior_yes']} of its {n} the model says Yes without the image, too."
    prior = f"Without the image the model would say Yes to {of['prior_yes']} of its {n}"
    fall = f"the false-positive rate falls by {of['fall']} on perturbed images"
    matched = f"at the margins of hallucinations, {of['hits_fall']} of true answers are lost on balance"
    if holds["fall"] == "yes":
        if holds["prior_no"] == holds["fragile"] == "yes":
            return (
                f"suppression of fragile visual evidence. {prior}; {fall}, what arises anew deducted, and more than "
                f"that of hits at the same margins, by {of['fragile']}."
            )
        if holds["hits_fall"] == "yes" and holds["fragile"] != "yes":
            more = ", even more than hallucinations" if holds["fragile"] == "no" else ""
            return f"a shift towards No of all answers. {fall[0].upper()}{fall[1:]}, and {matched}{more}."
    elif holds["fall"] == "no":
        return f"no suppression. There are more hallucinations on perturbed images, by {of['fall'].replace('-', '')}."
    elif holds["unchanged"] == "yes":
        return (
            "selection. Hallucinations flip, but as many arise: the false-positive rate stays as it is (base minus "
            f"perturbed {of['fall']}). A group picked for its high margins falls back by itself."
        )
    missing = {
        "prior_no": f"what the model would say of hallucinations without the image (Yes to {of['prior_yes']})",
        "fall": f"whether they become fewer on balance (base minus perturbed false-positive rate {of['fall']})",
        "fragile": f"whether they are lost more than hits of the same margins (difference {of['fragile']})",
    }
    open_ones = [text for name, text in missing.items() if holds[name] == "undecided"]
    return f"undecided. Of {n}, it is not settled {'; nor '.join(open_ones)}."


def pope_balance_table(records: pd.DataFrame, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Which perturbations reduce hallucination, and what it costs: gains beside losses under each family (HI 7).

    Returns:
        Rows (`family`): `questions`, `images`, `instances`; of the instances of each base case, the share whose answer
        turns: `hallucinations_lost_rate`, `hits_lost_rate` (Yes -> No), `rejections_lost_rate`, `misses_found_rate`
        (No -> Yes); net, family minus base on the same instances: `FPR_difference` (hallucinations that arise minus
        those lost), `recall_difference` (misses found minus hits lost), `accuracy_difference`; all with intervals. In
        words `hallucinations` and `right_answers`, `more` or `fewer` where interval and exact test agree, with
        `hallucinations_p`, `right_answers_p` Holm-adjusted over both and all families.
    """
    rows = pope_rows(records, samples)
    rows = rows.assign(right=rows.says == rows.true, was_right=rows.said == rows.true, false=~rows.true)
    for truth, of in ((False, "false"), (True, "true")):
        rows[f"{of}_says"], rows[f"{of}_said"] = rows.says & (rows.true == truth), rows.said & (rows.true == truth)
    columns = {"questions": distinct("sample"), "images": distinct("image"), "instances": count()}
    for case, name in _TURNED.items():
        rows[name], rows[f"{name}_of"] = rows.flip & (rows.case == case), rows.case == case
        columns[f"{name}_rate"] = rate(name, f"{name}_of")
    columns["FPR_difference"] = difference("false_says", "false", "false_said", "false")
    columns["recall_difference"] = difference("true_says", "true", "true_said", "true")
    columns["accuracy_difference"] = difference("right", "one", "was_right", "one")
    table = tabulate(rows, family_index(rows), columns)
    tests = {}
    for family in table.index:
        own = rows[rows.family == family]
        for name, part, now, then in (
            ("hallucinations", own[own.false], "says", "said"),
            ("right_answers", own, "right", "was_right"),
        ):
            moved = part.image[part[now] != part[then]].nunique()
            tests[name, family] = _against(part[now], part.one, part[then], part) | {"eventful": moved}
    if tests:
        found = rules.decide(pd.DataFrame(tests.values(), index=list(tests)), ("more", "fewer", "alike"))
        for name in ("hallucinations", "right_answers"):
            own = found.loc[[(name, family) for family in table.index]]
            table[name], table[f"{name}_p"] = own["verdict"].to_numpy(), own["p_holm"].to_numpy()
    return table.reset_index()


def _against(events, trials, other, rows: pd.DataFrame, bound: float = 0.0) -> dict:
    """`rules.of_images` of two counts on the same rows."""
    sums = pd.DataFrame({"events": events, "trials": trials, "other": other}, dtype=float)
    sums = sums.groupby(rows.image.to_numpy()).sum()
    return rules.of_images(sums.events, sums.trials, sums.other, sums.trials, bound)


def _matched(rows: pd.DataFrame) -> pd.DataFrame:
    """Instances answered Yes on base or perturbed image, `weight` giving those whose truth is Yes the mean margins of
    those whose truth is No; bins in which only one truth occurs are left out."""
    rows = rows[rows.said | rows.says]
    level = (rows.m + rows.m_base) / 2
    false = level[~rows.true]
    if false.empty or rows.true.sum() == 0:
        return rows.assign(weight=1.0).iloc[:0]
    edges = np.unique(np.quantile(false, np.linspace(0, 1, BINS + 1)))
    bins = pd.Series(np.searchsorted(edges, level, side="right"), index=rows.index).clip(upper=len(edges) - 1)
    bins = bins.where(level.between(edges[0], edges[-1]), 0)
    counts = pd.crosstab(bins, rows.true).reindex(columns=[False, True], fill_value=0).drop(index=0, errors="ignore")
    counts = counts[(counts > 0).all(axis=1)]
    weight = bins.map(counts[False] / counts[True]).where(rows.true, 1.0)
    return rows.assign(weight=weight)[bins.isin(counts.index)]


def _fragile(matched: pd.DataFrame) -> dict:
    """Net losses of Yes where the truth is No against those where it is Yes, at matched margins."""
    net = matched.weight * (matched.said.astype(float) - matched.says.astype(float))
    sides = [(~matched.true).astype(float) * matched.weight, matched.true * matched.weight]
    frame = pd.DataFrame({0: net * ~matched.true, 1: sides[0], 2: net * matched.true, 3: sides[1]}, dtype=float)
    frame["moved"] = matched.said != matched.says
    sums = frame.groupby(matched.image.to_numpy()).sum()
    return rules.of_images(*(sums[i] for i in range(4))) | {"eventful": int((sums.moved > 0).sum())}
