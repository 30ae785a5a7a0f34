"""A notebook's output: tables and figures saved in one folder, shown as people read them, and listed at the end."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from matplotlib.figure import Figure

from vfkit import figures
from vfkit.notebook import finish

# fractions whose names hold one of these words are shown in percent
_PERCENT = {
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
}
_PERCENT |= {"rate", "hidden", "beyond", "compliance", "confusion", "corrected"}
_FEWEST = 5  # images: with fewer there is no interval


class Output:
    """Tables in `folder/tables`, figures in `folder/figures`.

    Args:
        folder: of a run, or of several together.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.saved: list[Path] = []

    def table(
        self, name: str, table: pd.DataFrame, columns: str | Sequence[str] | None = None, rows: pd.Series | None = None
    ) -> pd.DataFrame:
        """Save a table, whole, as CSV with every digit and as LaTeX; return its readable form.

        Args:
            columns: which to show, in order: names, or one text of names with spaces between; None shows all.
            rows: which to show, as truth values.
        """
        self.saved += save(table, self.folder / "tables", name, columns)
        return readable(table if rows is None else table[rows], columns)

    def figure(self, name: str, fig: Figure, data: pd.DataFrame) -> None:
        """Save a figure as PNG and PDF, with the numbers drawn as CSV."""
        self.saved += figures.save(fig, self.folder / "figures", name, data).values()

    def finish(self, *others: "Output") -> None:
        """Show which files were written, by this and other outputs; FileNotFoundError where one is missing."""
        finish([path for output in (self, *others) for path in output.saved])


def show_errors(*frames: pd.DataFrame) -> None:
    """Show the errors of runs: samples short of control images as one sentence with their count, all others whole.

    Args:
        frames: of `Run.errors`, one a run, or of `Sweep.frame`.
    """
    for errors in frames:
        few = errors["stage"].eq("control") & errors["error"].eq("LookupError")
        if few.any():
            n = errors.loc[few, "sample_id"].nunique()
            count = f"{n:,} sample{'s have' if n > 1 else ' has'} fewer control images than asked for"
            display(Markdown(f"{count}: there are no more samples on other images. `run.errors()` lists them."))
        if not few.all():
            with pd.option_context("display.max_colwidth", None, "display.max_columns", None):
                display(errors[~few])


def readable(table: pd.DataFrame, columns: str | Sequence[str] | None = None) -> pd.DataFrame:
    """A copy to be read: `x`, `x_low`, `x_high` become one column `x` of `value [low, high]`; fractions become percent.

    Where a table counts its `images` (or `items`) and has fewer than five, an estimate says `n too small`.

    Args:
        table: any table of `vfkit.metrics`.
        columns: which columns to keep, in this order; None keeps all.
    """
    columns = columns.split() if isinstance(columns, str) else columns
    images = next((table[name] for name in ("images", "items") if name in table), pd.Series(np.inf, index=table.index))
    shown = {}
    for name in table.columns:
        if name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in table:
            continue
        percent = not _PERCENT.isdisjoint(name.split("_"))
        values = [table[name], images]
        values += [table[f"{name}_{end}"] for end in ("low", "high")] if f"{name}_low" in table else []
        shown[f"{name} (%)" if percent else name] = [
            _cell(*each, percent=percent) for each in zip(*values, strict=True)
        ]
    frame = pd.DataFrame(shown)
    return frame if columns is None else frame[[c if c in frame else f"{c} (%)" for c in columns]]


def save(table: pd.DataFrame, folder: str | Path, name: str, columns: str | Sequence[str] | None = None) -> list[Path]:
    """Write `name`.csv with every digit and `name`.tex as `readable` shows it; the folder is made if need be."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv", folder / f"{name}.tex"]
    table.to_csv(paths[0], index=False)
    paths[1].write_text(readable(table, columns).to_latex(index=False, escape=True))
    return paths


def _cell(value, images=np.inf, low=None, high=None, percent: bool = False) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if float(value).is_integer() and low is None and not percent:
        return f"{int(value):,}"
    digits = (lambda x: f"{100 * x:.1f}") if percent else (lambda x: f"{x:.3g}")
    if low is None or pd.isna(low):
        return digits(value) + (" [n too small]" if low is not None and images < _FEWEST else "")
    return f"{digits(value)} [{digits(low)}, {digits(high)}]"
