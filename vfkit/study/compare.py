"""Two runs side by side: what differs in how they were made, and whether their records agree."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vfkit.study.run import Run, open_run

_PASSING = (
    "key",
    "identity",
    "definitions",
    "about",
    "reused",
    "started",
    "finished",
    "seconds",
)  # differ between any two runs, or follow from what differs
_ROW = ["sample_id", "instance"]


@dataclass(frozen=True)
class Comparison:
    """Result of `compare_runs`; printing it gives a summary.

    Args:
        made: one row per entry of the two `run.json` that differs: `what` (dotted), `a`, `b`.
        records: one row per column of the records: `column`, `n` rows compared, `differ` of them,
            `max_difference` (absolute, in the column's own unit; NaN for texts, infinite where one is missing).
        flips: rows whose prediction, or whether it flipped, differs: sample_id, instance, prediction_a, prediction_b,
            flipped_a, flipped_b.
        only: rows of only one run: sample_id, instance, `run` (`a` or `b`).
    """

    made: pd.DataFrame
    records: pd.DataFrame
    flips: pd.DataFrame
    only: pd.DataFrame

    @property
    def rows(self) -> int:
        """Number of rows in both runs."""
        return 0 if self.records.empty else int(self.records.n.max())

    def agree(self, tolerance: float = 0.0) -> bool:
        """Whether both have the same rows and predictions, texts are equal, and no number differs by more. Runs
        without common rows do not agree."""
        differs = self.records[self.records.differ > 0]
        same = self.only.empty and self.flips.empty and bool((differs.max_difference <= tolerance).all())
        return same and self.rows > 0

    def __str__(self) -> str:
        differ = self.records[self.records.differ > 0]
        only_a, only_b = ((self.only.run == name).sum() for name in ("a", "b"))
        lines = [f"{self.rows} rows in both; {only_a} only in a, {only_b} only in b"]
        lines.append(f"{len(self.flips)} rows with another prediction or flip")
        same = "records agree exactly" if self.rows else "no row is in both: nothing was compared"
        lines.append(same if differ.empty else differ.to_string(index=False))
        lines.append("made alike" if self.made.empty else self.made.to_string(index=False))
        return "\n".join(lines)


def compare_runs(a: Run | str | Path, b: Run | str | Path) -> Comparison:
    """Compare two runs: what differs in how they were made, and whether their records agree.

    Rows are joined by sample and instance, never by order.

    Raises:
        FileNotFoundError: a folder without a run.
    """
    a, b = (run if isinstance(run, Run) else open_run(run) for run in (a, b))
    one, other = (_flat(run.manifest) for run in (a, b))
    made = [{"what": what, "a": one.get(what), "b": other.get(what)} for what in sorted({*one, *other})]
    made = pd.DataFrame(made, columns=["what", "a", "b"])
    first, second = (run.records().set_index(_ROW) for run in (a, b))
    both = first.index.intersection(second.index)
    only = [
        {"sample_id": sample, "instance": instance, "run": name}
        for name, frame in (("a", first), ("b", second))
        for sample, instance in frame.index.difference(both)
    ]
    first, second = first.loc[both], second.loc[both]
    return Comparison(
        made[[left != right for left, right in zip(made.a, made.b, strict=True)]].reset_index(drop=True),
        pd.DataFrame([_column(name, first[name], second[name]) for name in first]),
        _flips(first, second),
        pd.DataFrame(only, columns=[*_ROW, "run"]),
    )


def _flat(manifest: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Dotted names -> plain values; lists as JSON."""
    flat: dict[str, Any] = {}
    for name, value in manifest.items():
        if not before and name in _PASSING:
            continue
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _column(name: str, first: pd.Series, second: pd.Series) -> dict[str, Any]:
    kind = first.dropna().iloc[0] if first.notna().any() else None
    if isinstance(kind, np.ndarray | list) or pd.api.types.is_numeric_dtype(first.dtype):
        differences = [_distance(*pair) for pair in zip(first, second, strict=True)]
        differ, largest = sum(each > 0 for each in differences), max(differences, default=0.0)
    else:
        differ, largest = int((first.fillna("") != second.fillna("")).sum()), float("nan")
    return {"column": name, "n": len(first), "differ": differ, "max_difference": largest}


def _distance(one: Any, other: Any) -> float:
    """Largest absolute difference; two missing values are equal, and infinitely far from any other."""
    one, other = (np.asarray(np.nan if value is pd.NA or value is None else value, float) for value in (one, other))
    if one.shape != other.shape or (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    return float(np.nan_to_num(np.abs(one - other)).max(initial=0.0))


def _flips(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    frame = pd.DataFrame(index=first.index)
    for name, rows in (("a", first), ("b", second)):
        frame[f"prediction_{name}"] = rows.prediction
        frame[f"flipped_{name}"] = (rows.prediction != rows.base_prediction).fillna(False).astype(bool)
    predictions = frame.prediction_a.fillna(-1) != frame.prediction_b.fillna(-1)
    return frame[predictions | (frame.flipped_a != frame.flipped_b)].reset_index()
