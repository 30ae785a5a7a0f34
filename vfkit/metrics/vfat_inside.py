"""How far a misleading sentence moves the states, and whether they move where the answer holds (METHODS 7, 8, 13).

L1 and L3 ask the same question about the same image; L3 only adds a sentence that asserts the common-sense answer. So
the distance between their states is what the sentence does. The tables are those of drift: L1 is the base, L3 its one
perturbed form, and the same-question control is the L1 question on other samples' images.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.judge import OUTCOMES
from vfkit.measure import distances
from vfkit.metrics.controls import base_controls, control_pairs, control_samples, distance_column
from vfkit.metrics.drift import PROBES, drift_columns, drift_rows
from vfkit.metrics.frames import require
from vfkit.metrics.vfat import FORMATS

FAMILY = "{} L1 -> L3"  # what the tables call the move, by format
OWN_PROBES = {"mcq": ("ctx_mcq", "ans_mcq", "ans_mcq_free"), "oe": ("ctx_open", "ans_open")}
HELD = ("all", "kept", *(f"kept: {outcome}" for outcome in OUTCOMES), "flipped")


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
        probes: of which each format takes those of its own prompt (`OWN_PROBES`).
        tap, distance, k, seed: as in `drift_summary`.

    Returns:
        As `drift_summary`, with one `family` per format (`mcq L1 -> L3`). Rows of `answer`: `all` items; those whose
        answer was `kept` (the same outcome; where that is `other`, the same words), and of these the ones that held
        what is seen (`kept: vision`), the trap (`kept: bias`) or something else (`kept: other`); those where it changed
        (`flipped`). `hidden` is the share of items whose answer held while the state moved further than the 5th
        percentile of the same-question control; `hidden_strict` asks for the same words too. Items without both
        levels, or with two images, are left out.

    Raises:
        ValueError: answers of several models, or two readings of one question; no states in the run.
    """
    moved = vfat_moves(answers, records)
    tables, read = [], False
    for form in FORMATS:
        own = moved[moved["format"] == form].reset_index(drop=True)
        ids = set(own["first_id"])  # controls and other samples are those of the same kind of prompt
        states = vectors[vectors["sample_id"].isin(ids | set(own["second_id"]))]
        first = states[states["sample_id"].isin(ids)]
        asked = None if controls is None else controls[controls["sample_id"].isin(ids)]
        about = pd.DataFrame({"image": own["image_id"].array, "category": ""}, index=own["first_id"])
        for probe in [one for one in OWN_PROBES[form] if one in probes] if len(own) else ():
            rows = _rows(own, form, states, probe, tap, distance)
            read |= rows["drift"].notna().any()
            pairs = control_pairs(asked, distance_column(distance, probe, tap), about)
            samples = control_samples(pairs, base_controls(first, probe, tap, about, k, seed), distance, about, k)
            table = drift_rows(rows, HELD, pairs, samples)
            tables.append(drift_columns(table, probe=probe, tap=tap, distance=distance, kept_by="outcome"))
    if len(moved) and not read:
        raise ValueError("there are no states of these samples: the run was made without probes")
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["probe", "family", "answer"])


def _rows(moved: pd.DataFrame, form: str, states: pd.DataFrame, probe: str, tap: str, distance: str) -> pd.DataFrame:
    """One row per item and answer it stands under, as `drift_rows` takes them."""
    here = (states["probe"] == probe) & (states["tap"] == tap) & (states["instance"] == "base")
    vector = states[here].drop_duplicates("sample_id").set_index("sample_id")["vector"]
    drift = [_distance(vector.get(a), vector.get(b), distance) for a, b in zip(*_ends(moved), strict=True)]
    rows = pd.DataFrame({"family": FAMILY.format(form), "sample": moved["first_id"], "image": moved["image_id"]})
    rows = rows.assign(category="", drift=drift, flip=~moved["kept"], strict=moved["same_words"])
    held = ("kept: " + moved["second"]).where(moved["kept"])
    parts = [rows.assign(answer="all"), rows.assign(answer=np.where(moved["kept"], "kept", "flipped"))]
    return pd.concat([*parts, rows[moved["kept"]].assign(answer=held[moved["kept"]])], ignore_index=True)


def vfat_moves(answers: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Items whose L1 and L3 questions show one image, by format.

    Returns:
        `item`, `format`, `image_id`, `first_id`, `second_id` (the sample ids at L1 and L3), `first`, `second` (the
        outcomes), `kept`, and `same_words`.
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
    pair = pair[same].sort_values(["format", "item"], ignore_index=True)
    words = [pair[name].str.strip().str.casefold() for name in ("answer", "answer_told")]
    kept = pair["outcome"].eq(pair["outcome_told"]) & (pair["outcome"].ne("other") | words[0].eq(words[1]))
    names = {"sample_id": "first_id", "sample_id_told": "second_id", "outcome": "first", "outcome_told": "second"}
    table = pair.rename(columns=names)[[*keys, "image_id", *names.values()]]
    return table.assign(kept=kept.astype(bool), same_words=words[0].eq(words[1]).astype(bool))


def _ends(moved: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return moved["first_id"], moved["second_id"]


def _distance(one, other, distance: str) -> float:
    if one is None or other is None:
        return np.nan
    cosine, l2 = distances(np.asarray(one), np.asarray(other))
    return float(cosine if distance == "cos" else l2)
