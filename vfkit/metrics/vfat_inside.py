"""How far a misleading sentence moves the states, and whether they move where the answer holds (METHODS 7, 8, 13).

L1 and L3 ask the same question about the same image; L3 only adds a sentence that asserts the common-sense answer. So
the distance between their states is what the sentence does, and HI's drift tables serve as they are: L1 is the base, L3
the one perturbed form of it, and the same-question control is the L1 question on other samples' images.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.measure import distances
from vfkit.metrics.drift import PROBES, drift_summary
from vfkit.metrics.frames import require
from vfkit.metrics.vfat import FORMATS

FAMILY = "{} L1 -> L3"  # what the tables call the move, by format


def vfat_drift(
    answers: pd.DataFrame,
    records: pd.DataFrame,
    vectors: pd.DataFrame,
    controls: pd.DataFrame | None = None,
    probes: Sequence[str] = PROBES,
    tap: str = "post_norm",
    distance: str = "cos",
    k: int = 25,
    seed: int = 0,
) -> pd.DataFrame:
    """Distance between the states under the neutral (L1) and the misleading (L3) prompt of the same image.

    Args:
        answers: of `vfat_answers`, of one model and one reading per format: whether the answer held.
        records, vectors, controls: of the same run, with probes.
        probes, tap, distance, k, seed: as in `drift_summary`.

    Returns:
        As `drift_summary`, with one `family` per format (`mcq L1 -> L3`). Rows of `answer`: `all` items; those whose
        answer was `kept` (the same outcome; where that is `other`, the same words); those where it changed (`flipped`).
        `hidden` is the share of items whose answer held while the state moved further than the 5th percentile of the
        same-question control. Items without both levels, or with two images, are left out.

    Raises:
        ValueError: answers of several models, or two readings of one question; no states in the run.
    """
    moved = vfat_moves(answers, records)
    columns = [f"{distance}_{probe}_{tap}" for probe in probes]
    for probe, column in zip(probes, columns, strict=True):
        here = (vectors["probe"] == probe) & (vectors["tap"] == tap) & (vectors["instance"] == "base")
        states = vectors[here].drop_duplicates("sample_id").set_index("sample_id")["vector"]
        moved[column] = [_distance(states.get(a), states.get(b), distance) for a, b in zip(*_ends(moved), strict=True)]
    if len(moved) and moved[columns].isna().all(axis=None):
        raise ValueError("there are no states of these samples: the run was made without probes")
    base = pd.DataFrame({"sample_id": moved["first_id"], "family": "base", "instance": "base", "prediction": 0})
    told = moved.rename(columns={"first_id": "sample_id"})
    told = told.assign(family=told["format"].map(FAMILY.format), instance="L3", prediction=1 - told["kept"].astype(int))
    rows = pd.concat([base.assign(image_id=moved["image_id"]), told], ignore_index=True).assign(applicable=True)
    tables = []
    for form in FORMATS:  # controls and other samples are those of the same kind of prompt
        ids = set(moved.loc[moved["format"] == form, "first_id"])
        if ids:
            parts = [frame[frame["sample_id"].isin(ids)] for frame in (rows, vectors)]
            control = None if controls is None else controls[controls["sample_id"].isin(ids)]
            tables.append(drift_summary(*parts, control, probes, [tap], [distance], k, seed))
    return (
        pd.concat(tables, ignore_index=True) if tables else drift_summary(rows, None, None, probes, [tap], [distance])
    )


def vfat_moves(answers: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Items whose L1 and L3 questions show one image, by format.

    Returns:
        `item`, `format`, `image_id`, `first_id`, `second_id` (the sample ids at L1 and L3), `first`, `second` (the
        outcomes) and `kept`.
    """
    require(records)
    if "model" in answers and answers["model"].nunique() > 1:
        raise ValueError("states are compared within one model: filter the answers to it")
    keys = ["item", "format"]
    sides = [answers[answers["level"] == level] for level in ("L1", "L3")]
    for side in sides:
        if side[keys].duplicated().any():
            raise ValueError("an item has two answers at one level: filter the answers to one reading and rule")
    pair = sides[0].merge(sides[1], on=keys, suffixes=("", "_told"))
    base = records.loc[records["family"] == "base"].set_index("sample_id")["image_id"]
    same = pair["sample_id"].map(base).eq(pair["sample_id_told"].map(base))
    pair = pair[same].reset_index(drop=True)
    words = [pair[name].str.strip().str.casefold() for name in ("answer", "answer_told")]
    kept = pair["outcome"].eq(pair["outcome_told"]) & (pair["outcome"].ne("other") | words[0].eq(words[1]))
    names = {"sample_id": "first_id", "sample_id_told": "second_id", "outcome": "first", "outcome_told": "second"}
    table = pair.rename(columns=names)[[*keys, "image_id", *names.values()]]
    return table.assign(kept=kept.astype(bool))


def _ends(moved: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return moved["first_id"], moved["second_id"]


def _distance(one, other, distance: str) -> float:
    if one is None or other is None:
        return np.nan
    cosine, l2 = distances(np.asarray(one), np.asarray(other))
    return float(cosine if distance == "cos" else l2)
