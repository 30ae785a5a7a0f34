"""Scores corrected for the language prior, and how much an answer relies on the image (METHODS 12, 17).

The *prior* of an option is its score on a blank image of the same size (family `blank`); its corrected score is
s(option | image) - s(option | blank), what the image adds. Any data set will do. What counts, the order of families and
the intervals are as in `vfkit.metrics.frames`; samples with one option, or whose blank was not read, are left out.
"""

import numpy as np
import pandas as pd
from scipy.special import log_softmax

from vfkit.metrics import rules
from vfkit.metrics.frames import need, rows_of, twice, with_union
from vfkit.metrics.pope import FILL, require_fill
from vfkit.metrics.scores import option_scores, rescore
from vfkit.metrics.tabulate import (
    average,
    count,
    difference,
    distinct,
    family_index,
    mean,
    product_index,
    rate,
    tabulate,
    total,
)
from vfkit.perturb.blank import NONE


def reliance_table(records: pd.DataFrame, rule: str = "paper", fill: str | None = None) -> pd.DataFrame:
    """How much of the answers to the base images is in the image, and how much is there without it.

    Args:
        rule: the study's scoring rule. fill: which blank; None takes all there are.

    Returns:
        Rows (`fill`, `category`), all samples first: `samples`, `images`; with their intervals `same_rate` (the blank
        gives the same answer), `evidence` (nats: what the image adds to the score of the base answer), `information`
        (nats: KL divergence of the options' probabilities on the image from those on the blank). Of the `known` ones,
        whose right answer is known: `accuracy` on the image, `blank_accuracy` without it, `corrected_accuracy` by
        corrected scores, the paired differences `accuracy_gain` = accuracy - blank_accuracy and
        `corrected_difference` = corrected_accuracy - accuracy, and `chance`.

    Raises:
        ValueError: no such blank in the records.
    """
    need(records, "records", "family", "instance")
    blanks = records["instance"][records["family"] == "blank"].unique()
    fills = [str(blank).removeprefix("blank_") for blank in sorted(blanks)] or [FILL] if fill is None else [fill]
    parts = [prior_rows(records, rule, one).assign(fill=one) for one in fills]
    rows = pd.concat(parts, ignore_index=True)
    rows = twice(rows[rows.is_base], "category")
    index = product_index(fill=fills, category=["all", *sorted(set(rows.category) - {"all"})])
    columns = {"samples": count(), "images": distinct("image"), "same_rate": rate("same")}
    table = tabulate(rows, index, columns | {name: mean(name) for name in ("evidence", "information")})
    known = rows[rows.answer.notna()]
    right = {
        "right": known.prediction == known.answer,
        "right_blank": known.blank == known.answer,
        "right_corrected": known.corrected == known.answer,
    }
    known = known.assign(**right, chance=1 / known.options)
    columns = {"known": count(), "accuracy": rate("right"), "blank_accuracy": rate("right_blank")}
    columns |= {
        "corrected_accuracy": rate("right_corrected"),
        "accuracy_gain": difference("right", "one", "right_blank", "one"),
    }
    columns |= {"corrected_difference": difference("right_corrected", "one", "right", "one")}
    return table.join(tabulate(known, index, columns | {"chance": average("chance")})).reset_index()


def corrected_flip_table(records: pd.DataFrame, rule: str = "paper", fill: str = FILL) -> pd.DataFrame:
    """Flips of corrected answers beside those of plain ones, and flips of answers that need no image.

    Args:
        rule: the study's scoring rule. fill: which blank.

    Returns:
        One row per family: `samples`, `images`, `instances`, `flips`; with their intervals `IFR`, `corrected_IFR` (of
        the answers by corrected scores, on base and perturbed image) and their paired `difference` = corrected - plain;
        `same_IFR` and `other_IFR`, the flip rates of samples whose blank gives the base answer, and another one;
        `to_blank_share`: of the flips of the latter, the share that arrives at the blank's answer, and `chance_share`,
        what it would be if flips fell on all other options alike.

    Raises:
        ValueError: as `reliance_table`.
    """
    rows = with_union(prior_rows(records, rule, fill))
    rows = rows[rows.family != "blank"]
    other = ~rows.same
    rows = rows.assign(
        corrected_flip=rows.corrected != rows.base_corrected,
        other=other,
        same_flip=rows.flip & rows.same,
        other_flip=rows.flip & other,
        to_blank=rows.flip & other & (rows.prediction == rows.blank),
        chance=(1 / (rows.options - 1)).where(rows.flip & other),
    )
    columns = {"samples": distinct("sample"), "images": distinct("image"), "instances": count(), "flips": total("flip")}
    columns |= {"IFR": rate("flip"), "corrected_IFR": rate("corrected_flip")}
    columns |= {"difference": difference("corrected_flip", "one", "flip", "one")}
    columns |= {"same_IFR": rate("same_flip", "same"), "other_IFR": rate("other_flip", "other")}
    columns |= {"to_blank_share": rate("to_blank", "other_flip"), "chance_share": average("chance")}
    return tabulate(rows, family_index(rows), columns).reset_index()


def reliance_finding(table: pd.DataFrame) -> str:
    """Does the model look at the image? Markdown bullets.

    Args:
        table: of `reliance_table`.
    """
    need(table, "table", "fill", "category", "same_rate", "accuracy_gain", "blank_accuracy")
    lines = []
    for row in table[table.category == "all"].to_dict("records"):
        where = "Without any image" if row["fill"] == NONE else f"On a {row['fill']} image"
        text = (
            f"{where} {rules.shown(row, 'same_rate')} of {int(row['samples']):,} answers stay the same; the image adds "
        )
        text += f"{rules.shown(row, 'evidence', 1, 2, ' nats', signed=True)} to the answer's score."
        if row["known"]:
            text += (
                f" Then {rules.shown(row, 'blank_accuracy')} are right, where chance is {100 * row['chance']:.0f} %; "
            )
            text += (
                f"the image adds {rules.shown(row, 'accuracy_gain', unit=' points', signed=True)}. By corrected scores "
            )
            text += f"{rules.shown(row, 'corrected_accuracy')} are right, a change of "
            text += f"{rules.shown(row, 'corrected_difference', unit=' points', signed=True)}."
        lines.append(text)
    return "\n".join(f"- {line}" for line in lines)


def prior_rows(records: pd.DataFrame, rule: str = "paper", fill: str = FILL) -> pd.DataFrame:
    """The frame the tables here are made of: base and perturbed rows whose sample has a base, a blank and a choice.

    Returns:
        The columns of `rows_of`, predictions by the rule, and `options`; `corrected`, `base_corrected` (answers by
        corrected scores), `blank` (the blank's answer), `same` (it is the base answer), `evidence` and `information`
        of the base image.
    """
    require_fill(records, fill)
    values, options = option_scores(records, rule)
    rows = rows_of(rescore(records, rule), "answer", "category").assign(options=options, at=np.arange(len(records)))
    is_blank = (records["instance"].astype(str) == f"blank_{fill}").to_numpy() & (rows.family == "blank")
    read = rows[options > 1]
    blank_at = rows["sample"].map(read[is_blank[options > 1]].set_index("sample")["at"])
    base_at = rows["sample"].map(read[read.is_base].set_index("sample")["at"])
    used = (options > 1) & blank_at.notna() & base_at.notna()
    rows, at = rows[used].copy(), rows["at"][used].to_numpy()
    blank, base = blank_at[used].to_numpy(int), base_at[used].to_numpy(int)
    own = np.arange(values.shape[1]) < options[at, None]

    def best(which: np.ndarray) -> np.ndarray:
        added = np.where(own, values[which] - np.where(own, values[blank], 0), -np.inf)
        return added.argmax(axis=1).astype(float) if len(added) else np.zeros(0)

    said = rows["base"].to_numpy(int)
    image, without = (log_softmax(np.where(own, values[which], -np.inf), axis=1) for which in (base, blank))
    gap = np.where(own, image - np.where(own, without, 0), 0)
    rows["corrected"], rows["base_corrected"] = best(at), best(base)
    rows["blank"] = rows["sample"].map(rows.loc[is_blank[used], :].set_index("sample")["prediction"])
    rows["same"] = rows["blank"] == rows["base"]
    rows["evidence"] = values[base, said] - values[blank, said]
    rows["information"] = (np.exp(image) * gap).sum(axis=1)
    return rows.drop(columns="at")
