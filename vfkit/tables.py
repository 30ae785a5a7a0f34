"""Tables for people: estimates with their intervals in one cell, saved as CSV (all digits) and LaTeX."""

from pathlib import Path

import numpy as np
import pandas as pd

_PERCENT = (
    "IFR",
    "IV",
    "mAcc",
    "mTDS",
    "FPR",
    "F1",
    "accuracy",
    "precision",
    "recall",
    "chance",
    "difference",
    "share",
    "rate",
)  # fractions shown as percent


def readable(table: pd.DataFrame, columns: list[str] | None = None) -> pd.DataFrame:
    """A copy to be read: `x`, `x_low`, `x_high` become one column `x` of `value [low, high]`; fractions become percent.

    Args:
        table: any table of `vfkit.metrics`.
        columns: which columns to keep, in this order; None keeps all.
    """
    shown = {}
    for name in table.columns:
        if name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in table:
            continue
        percent = any(word in name.split("_") for word in _PERCENT)
        bounds = [table[f"{name}_{end}"] for end in ("low", "high")] if f"{name}_low" in table else []
        label = f"{name} (%)" if percent else name
        shown[label] = [_cell(*values, percent=percent) for values in zip(table[name], *bounds, strict=True)]
    frame = pd.DataFrame(shown)
    return frame if columns is None else frame[[c if c in frame else f"{c} (%)" for c in columns]]


def _cell(value, low=None, high=None, percent: bool = False) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if float(value).is_integer() and low is None and not percent:
        return f"{int(value):,}"
    digits = (lambda x: f"{100 * x:.1f}") if percent else (lambda x: f"{x:.3g}")
    return digits(value) if low is None or pd.isna(low) else f"{digits(value)} [{digits(low)}, {digits(high)}]"


def save(table: pd.DataFrame, folder: str | Path, name: str, columns: list[str] | None = None) -> list[Path]:
    """Write `name`.csv with every digit and `name`.tex as `readable` shows it; the folder is made if need be."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv", folder / f"{name}.tex"]
    table.to_csv(paths[0], index=False)
    paths[1].write_text(readable(table, columns).to_latex(index=False, escape=True))
    return paths
