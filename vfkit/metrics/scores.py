"""Scores of options from the parts that records keep: another scoring rule, and probabilities (METHODS 5).

What counts and the intervals are as in `vfkit.metrics.frames`; no model is needed.
"""

import numpy as np
import pandas as pd

from vfkit.metrics.flips import accuracy_table, flip_table
from vfkit.metrics.frames import base_value, rows_of
from vfkit.perturb import HI_FAMILIES
from vfkit.readout.rules import RULES, scores

_PARTS = ("logp_text", "logp_end", "n_tokens", "logp_letter")


def rescore(records: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Score records by another rule (METHODS 5), from the parts they keep; no model is needed.

    Recomputes `prediction`, `tied`, `margin`, `base_prediction`, `base_margin`; instances that do not apply stay
    empty, and a sample without a base row gets no base prediction. The overlays were drawn to avoid the base
    prediction of the *study's* rule: where the base prediction differs here, one of them may name it.

    Raises:
        ValueError: unknown rule; `letter` where no letters were asked; parts missing or of unequal length.
    """
    values, options = option_scores(records, rule)
    rows, several = rows_of(records), np.flatnonzero(options > 1)
    prediction, margin, base_label = np.full((3, len(rows)), np.nan)
    tied = np.zeros(len(rows), dtype=bool)
    if values.size:
        prediction = np.where(options > 0, values.argmax(axis=1), np.nan)
        tied = (values == values.max(axis=1, keepdims=True)).sum(axis=1) > 1
    if len(several):
        top = np.sort(values[several], axis=1)
        margin[several] = top[:, -1] - top[:, -2]
    base = base_value(rows.assign(prediction=prediction), "prediction")
    known = several[base.iloc[several].notna()]
    if len(known):
        others, own = values[known], (np.arange(len(known)), base.iloc[known].astype(int))
        score = others[own]
        others[own] = -np.inf
        base_label[known] = score - others.max(axis=1)
    new = {"base_prediction": base, "prediction": prediction, "tied": tied, "margin": margin, "base_margin": base_label}
    new = {name: pd.Series(np.asarray(values), index=records.index) for name, values in new.items()}
    for name in ("base_prediction", "prediction"):
        new[name] = new[name].astype("Int64")
    new["tied"] = new["tied"].astype("boolean").where(new["prediction"].notna())
    return records.assign(**new)


def option_scores(records: pd.DataFrame, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores of every record's options by a rule, float64 [row, option], -inf beyond a row's own options.

    Returns:
        The scores, and the number of options of each row: 0 where the instance does not apply or was not read.

    Raises:
        ValueError: as `rescore`, and where a score is not a number, or no option is possible.
    """
    if rule not in RULES:
        raise ValueError(f"unknown scoring rule {rule!r}; the rules are {', '.join(RULES)}")
    rows = rows_of(records, *_PARTS)
    read = np.flatnonzero(rows.prediction.notna())
    lists = {name: records[name].iloc[read].tolist() for name in _PARTS}
    counts = [[len(part) if hasattr(part, "__len__") else 0 for part in parts] for parts in lists.values()]
    lengths: np.ndarray = np.array(counts, dtype=int)  # [part, row]
    uneven: np.ndarray = (lengths != lengths[:1]).any(axis=0) | (lengths[0] == 0)
    if uneven.any():
        sample = rows["sample"].iloc[read[uneven][0]]
        raise ValueError(f"sample {sample!r}: the parts of its scores are missing or of unequal length")
    options = np.zeros(len(rows), dtype=int)
    options[read] = lengths[0]
    values = np.full((len(rows), options.max(initial=0)), -np.inf)
    # row by row, as the parts lie: every rule works number by number
    parts = (np.concatenate([np.zeros(0), *part]) for part in lists.values())
    values[np.arange(values.shape[1]) < options[:, None]] = scores(rule, *parts)
    unusable = (options > 0) & ~np.isfinite(values.max(axis=1, initial=-np.inf))
    if unusable.any():
        raise ValueError(f"sample {rows['sample'][unusable].iloc[0]!r}: its scores are not finite numbers")
    return values, options


def rule_table(records: pd.DataFrame) -> pd.DataFrame:
    """Base accuracy and flip rate under each scoring rule, from one set of records (see `rescore`).

    Returns:
        One row per rule: `samples`, `accuracy` with its interval and `chance` on base images; `family` (HI's families
        present, pooled), `instances`, `flips`, `IFR` with its interval. `letter` takes the samples whose options have
        letters; no numbers stand where there are none.
    """
    accuracy = ["samples", "accuracy", "accuracy_low", "accuracy_high", "chance"]
    flips = ["family", "instances", "flips", "IFR", "IFR_low", "IFR_high"]
    rows = []
    for rule in RULES:
        scored = rescore(_lettered(records) if rule == "letter" else records, rule)
        table = flip_table(scored)
        ours = table.family.isin(HI_FAMILIES) | table.family.str.startswith("union (")
        pooled = table[ours & (table.instances > 0)].tail(1)
        rows.append({"rule": rule} | accuracy_table(scored).iloc[0][accuracy].to_dict())
        rows[-1] |= {} if pooled.empty else pooled.iloc[0][flips].to_dict()
    table = pd.DataFrame(rows, columns=["rule", *accuracy, *flips])
    return table.assign(**{name: table[name].fillna(0).astype(int) for name in ("samples", "instances", "flips")})


def _lettered(records: pd.DataFrame) -> pd.DataFrame:
    """The records of samples whose options have letters."""
    none = records["logp_letter"].map(lambda parts: hasattr(parts, "__len__") and bool(np.isnan(parts).any()))
    return records[~records["sample_id"].isin(records["sample_id"][none.astype(bool)])]
