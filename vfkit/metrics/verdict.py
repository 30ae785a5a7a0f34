"""Does drift cause hallucination? A verdict on yes/no records by stated criteria (HI 7).

HI reads the fall of false positives under perturbation as a drift to the language prior. That reading needs more than
the fall itself: the prior has to say No where the model hallucinated, and the margins have to move its way.
"""

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.pope import (
    FILL,
    HALLUCINATION,
    HIT,
    MIN_GAP,
    pope_rows,
    pope_table,
    prior_drift_table,
    prior_table,
    require_fill,
)

IGNORED = 0.95  # share of questions that base and blank answer alike, from which on the image counts as ignored
FEWEST = 6  # images with hallucinations; with fewer the signed-rank test cannot reach p < 0.05
CRITERIA = {
    "ignored": f"of all questions, the share whose yes-no margins with and without image lie within {MIN_GAP} nats "
    f"is at least {IGNORED:.0%}",
    "prior_yes": "of the hallucinations, the share to which the blank image says Yes, too, is above one half",
    "prior_no": "of the hallucinations, the share to which the blank image says Yes, too, is below one half",
    "towards": "of the hallucinations, the median movement of perturbed margins is towards the blank image's "
    "(0: none, 1: all the way), and the test against no movement has p < 0.05",
    "fragile": "hallucinations flip more often than hits: flip rate of the one minus that of the other is above 0",
}

_FAILED = {
    "prior_no": "most of them are not answered No without the image (Yes to {} %)",
    "towards": "perturbed margins do not move towards the prior beyond chance ({} % of the way)",
    "fragile": "they do not flip more often than hits (difference {} points)",
}


def verdict_table(
    records: pd.DataFrame, samples: pd.DataFrame | None = None, fill: str = FILL, min_gap: float = MIN_GAP
) -> pd.DataFrame:
    """The criteria of the verdict, and what the data say of each.

    Returns:
        One row per criterion: `name`, `criterion` in words, `value` with its 95 % interval (`low`, `high`), `questions`
        and `images` it rests on, and whether it `holds`: the whole interval lies on the named side (the value itself
        for `ignored`): `yes`, `no`, or `undecided` where fewer than `FEWEST` images have hallucinations.
        Perturbed means the union of HI's families, or the only one there is.

    Raises:
        ValueError: no such blank in the records, or no yes/no question with a known answer.
    """
    require_fill(records, fill)
    priors = prior_table(records, samples, min_gap).set_index(["fill", "group"])
    if (fill, "all") not in priors.index:
        raise ValueError("there are no yes/no questions with a known answer among these records")
    rows = pope_rows(records, samples, fill)
    union = (
        sorted(rows.family[rows.family.str.startswith("union (")].unique())
        or sorted(set(rows.family) - {"identity"})[-1:]
    )
    rows = rows[rows.family.isin(union)]
    drift = prior_drift_table(records, samples, fill, min_gap).set_index(["case", "family"])
    drift = drift.loc[(HALLUCINATION, union[0])] if union else None
    all_, wrong = (priors.loc[(fill, group)] for group in ("all", HALLUCINATION))
    cases = {case: rows.case == case for case in (HALLUCINATION, HIT)}
    parts = [part.astype(float) for own in cases.values() for part in (own & rows.flip, own)]
    fragile = stats.difference(*parts, rows.image)
    images = rows[cases[HALLUCINATION]].image.nunique()
    found = [
        ("ignored", *_estimate(all_, "near_rate"), all_.questions, rows.image.nunique()),
        ("prior_yes", *_estimate(wrong, "blank_yes_rate"), wrong.questions, images),
        ("prior_no", *_estimate(wrong, "blank_yes_rate"), wrong.questions, images),
        ("towards", *((np.nan,) * 3 if drift is None else _estimate(drift, "drift")), wrong.questions, images),
        ("fragile", *(fragile.iloc[0][["value", "low", "high"]] if len(fragile) else (np.nan,) * 3), wrong.questions,
         images),
    ]  # fmt: skip
    table = pd.DataFrame(found, columns=["name", "value", "low", "high", "questions", "images"])
    table = table.astype({"questions": int, "images": int})
    table.insert(1, "criterion", table.name.map(CRITERIA))
    low, high, value = (table.set_index("name")[column] for column in ("low", "high", "value"))
    holds = {
        "ignored": value.ignored >= IGNORED,
        "prior_yes": low.prior_yes > 0.5,
        "prior_no": high.prior_no < 0.5,
        "towards": low.towards > 0 and drift is not None and drift.p < 0.05,
        "fragile": low.fragile > 0,
    }
    said = {name: images >= FEWEST for name in CRITERIA} | {"ignored": value.notna().ignored}
    table["holds"] = [("yes" if holds[name] else "no") if said[name] else "undecided" for name in table.name]
    return table


def verdict(
    records: pd.DataFrame,
    model: str,
    dataset: str,
    samples: pd.DataFrame | None = None,
    fill: str = FILL,
    min_gap: float = MIN_GAP,
) -> str:
    """In plain words, from the data alone: suppression of fragile visual evidence, language bias, or neither.

    - The image is ignored if `ignored` holds: then prior and prediction are one, the extreme of language bias.
    - Language bias: `prior_yes`. The model would have said Yes without the image.
    - Suppression of fragile visual evidence: `prior_no`, `towards` and `fragile`. What the model saw made it say Yes,
      and perturbation takes that away, from hallucinations sooner than from hits.
    - Neither: what is left. Undecided: hallucinations on fewer than `FEWEST` images.
    """
    table = verdict_table(records, samples, fill, min_gap).set_index("name")
    base = pope_table(records, samples).set_index(["category", "family"]).loc[("all", "base")]
    priors = prior_table(records, samples, min_gap).set_index(["fill", "group"]).loc[(fill, "all")]
    says = f" and says Yes to {_percent(base, 'FPR')} of those whose truth is No"
    false_yes = says if base.FPR == base.FPR else ""  # there may be none
    where = "Without image" if fill == "none" else f"On a {fill} image"
    start = (
        f"On {int(base.questions):,} yes/no questions of {dataset}, {model} is right in {_percent(base, 'accuracy')}"
        f"{false_yes}. {where} it says Yes to "
        f"{_percent(priors, 'blank_yes_rate')} of all questions. Verdict: "
    )
    holds, wrong = table.holds == "yes", table.loc["prior_yes"]
    n = f"{wrong.questions} hallucination{'' if wrong.questions == 1 else 's'} on {wrong.images} image"
    n += "" if wrong.images == 1 else "s"
    if holds.ignored:
        return start + (
            "the image is ignored. Prior and prediction are the same: with and without the image the margins agree "
            f"within {min_gap} nats in {_percent(priors, 'near_rate')} of the questions. What the model answers is "
            "language bias alone."
        )
    if wrong.images < FEWEST:
        return start + f"undecided. Found: {n}; by fewer than {FEWEST} images nothing can be said of causes."
    if holds.prior_yes:
        return start + f"language bias. To {_cell(wrong, 100)} % of its {n} the model says Yes without the image, too."
    if holds.prior_no and holds.towards and holds.fragile:
        return start + (
            f"suppression of fragile visual evidence. Without the image the model would say Yes to {_cell(wrong, 100)} "
            f"% of its {n} only; perturbed, their margins move {_cell(table.loc['towards'])} of the way to where they "
            f"would be without it, and they flip more often than hits, by {_cell(table.loc['fragile'], 100)} points."
        )
    failed = [text.format(_cell(table.loc[name], 100)) for name, text in _FAILED.items() if not holds[name]]
    return start + (
        f"neither. Of {n}, it is not shown that the model says Yes to most without the image, nor that perturbation "
        f"takes weak evidence away: {'; '.join(failed)}."
    )


def _estimate(row: pd.Series, name: str) -> tuple[float, float, float]:
    return row[name], row[f"{name}_low"], row[f"{name}_high"]


def _percent(row: pd.Series, name: str) -> str:
    value, low, high = (100 * one for one in _estimate(row, name))
    return f"{value:.1f} %" + (f" [{low:.1f}, {high:.1f}]" if low == low else "")


def _cell(row: pd.Series, scale: float = 1) -> str:
    value, low, high = (scale * row[name] for name in ("value", "low", "high"))
    digits = 1 if scale > 1 else 2
    return f"{value:.{digits}f}" + (f" [{low:.{digits}f}, {high:.{digits}f}]" if low == low else "")
