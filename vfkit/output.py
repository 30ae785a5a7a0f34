"""A notebook's output: tables and figures saved in one folder, shown as people read them, and listed at the end."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import HTML, display
from matplotlib.figure import Figure

from vfkit import figures
from vfkit.browse import Page
from vfkit.notebook import finish
from vfkit.webpage import link

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
_PERCENT |= {"rate", "hidden", "beyond", "compliance", "confusion", "corrected", "first", "second", "restoration"}
_PERCENT |= {"confidence", "gap", "ECE", "AURC", "risk", "lead", "on", "final"}
_TROUBLES = {"no_answer", "not_applicable", "left_out", "tied"}  # columns shown only where there is a count in them
_STYLE = ".vfkit td, .vfkit th { white-space: nowrap; } .vfkit :is(td, th):first-child { text-align: left; }"
_FEWEST = 5  # images: with fewer there is no interval


@dataclass(frozen=True)
class Shown:
    """A table as a notebook shows it: no running index, a note below on the rows that were folded."""

    frame: pd.DataFrame
    note: str = ""

    def _repr_html_(self) -> str:
        note = f'<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        return f"<style>{_STYLE}</style>" + self.frame.to_html(index=False, border=0, classes="vfkit") + note

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.frame.to_string(index=False), self.note]))


class Output:
    """Tables in `folder/tables`, figures in `folder/figures`.

    Args:
        folder: of a run, or of several together.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.saved: list[Path] = []

    def table(
        self,
        name: str,
        table: pd.DataFrame,
        columns: str | Sequence[str] | None = None,
        rows: pd.Series | None = None,
        caption: str = "",
    ) -> Shown:
        """Save a table, whole, as CSV with every digit and as LaTeX; return what a notebook shows of it.

        Args:
            columns: which to show, in order: names, or one text of names with spaces between; None shows all.
            rows: which to show, as truth values.
            caption: of the LaTeX table, which then holds the rows shown only.
        """
        self.saved += save(table, self.folder / "tables", name, columns, rows, caption)
        return shown(table if rows is None else table[rows], columns)

    def figure(self, name: str, fig: Figure, data: pd.DataFrame) -> None:
        """Save a figure as PNG and PDF, with the numbers drawn as CSV, and show it."""
        self.saved += figures.save(fig, self.folder / "figures", name, data).values()
        display(fig, metadata={"image/png": {"alt": f"Figure {name.replace('_', ' ')}"}})
        plt.close(fig)  # or it would be shown again at the end of the cell

    def note(self, text: str) -> None:
        """Show a sentence, such as how to read the figure above."""
        display(HTML(f'<p class="note">{html.escape(text)}</p>'))

    def page(self, page: Page) -> None:
        """Show a page of samples below a link to it."""
        self.saved.append(page.path)
        name, size = "/".join(page.path.parts[-5:]), f"{page.path.stat().st_size / 1e6:.1f} MB"
        display(HTML(f"<p>Samples: {link(page.path, name)} ({size})</p>{page.frame()}"))

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
            display(HTML(f"<p>{count}: there are no more samples on other images. run.errors() lists them.</p>"))
        if not few.all():
            with pd.option_context("display.max_colwidth", None, "display.max_columns", None):
                display(errors[~few])


def shown(table: pd.DataFrame, columns: str | Sequence[str] | None = None) -> Shown:
    """Make the readable form of a table, short: rows in which nothing, or everything, happens are named in a note, and
    empty columns left out.

    Args:
        table: any table of `vfkit.metrics`.
        columns: which columns to show, in this order; None shows all.
    """
    names = columns.split() if isinstance(columns, str) else columns or [n for n in table if not _is_end(n, table)]
    estimates = [name for name in names if _is_percent(name) or f"{name}_low" in table]
    numbers = table[estimates].apply(pd.to_numeric, errors="coerce")
    whole = [1 if _is_percent(name) else np.nan for name in estimates]
    notes, kept = [], pd.Series(True, index=table.index)
    for value, words in ((np.nan, "Nothing to count in"), (0, "Nothing but 0 in"), (whole, "Nothing but 100 % in")):
        rows = (numbers.isna() | numbers.eq(value)).all(axis=1) & kept & bool(estimates)
        if 0 < rows.sum() < kept.sum():
            kept &= ~rows
            notes.append(f"{words} {_named(table[names], rows)}.")
    rest = table[kept]
    silent = [name for name in names if rest[name].isin([0, ""] if name in _TROUBLES else [""]).all()]
    silent += [name for name in names if rest[name].isna().all()]
    frame = readable(rest, [name for name in names if name not in silent or not len(rest)])
    return Shown(frame, " ".join([*notes, "The CSV holds every row."] if notes else []))


def readable(table: pd.DataFrame, columns: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Make a copy of a table as text: `x`, `x_low`, `x_high` become one column of `value [low, high]`, fractions
    become per cent, and underscores in heads spaces.

    Where a table counts its `images` (or `items`) and has fewer than five, an estimate says `n too small`.

    Args:
        table: any table of `vfkit.metrics`.
        columns: which columns to keep, in this order; None keeps all.
    """
    columns = columns.split() if isinstance(columns, str) else columns
    images = next((table[name] for name in ("images", "items") if name in table), pd.Series(np.inf, index=table.index))
    cells, heads = {}, {}
    for name in table.columns:
        if _is_end(name, table):
            continue
        percent = _is_percent(name)
        values = [table[name], images]
        values += [table[f"{name}_{end}"] for end in ("low", "high")] if f"{name}_low" in table else []
        cells[name] = [_cell(*each, percent=percent) for each in zip(*values, strict=True)]
        heads[name] = f"{name.replace('_', ' ').replace('->', '→')}{' (%)' if percent else ''}"
    frame = pd.DataFrame(cells, index=table.index)
    return (frame if columns is None else frame[list(columns)]).rename(columns=heads)


def save(
    table: pd.DataFrame,
    folder: str | Path,
    name: str,
    columns: str | Sequence[str] | None = None,
    rows: pd.Series | None = None,
    caption: str = "",
) -> list[Path]:
    """Write `name`.csv, whole and with every digit, and `name`.tex as `readable` shows it; make the folder if need be.

    Args:
        rows: of the LaTeX table, where a caption is given; else it holds all.
        caption: of the LaTeX table, whose label is then `tab:name`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv", folder / f"{name}.tex"]
    table.to_csv(paths[0], index=False)
    own = table if rows is None or not caption else table[rows]
    paths[1].write_text(latex(readable(own, columns), caption, name), encoding="utf-8")
    return paths


def latex(table: pd.DataFrame, caption: str = "", name: str = "") -> str:
    """Set a readable table in LaTeX (packages booktabs, graphicx): texts to the left, numbers to the right, no wider
    than the line.

    Args:
        caption: makes it a float with this caption and the label `tab:name`.
    """
    table = table.loc[:, ~table.eq("").all()] if len(table) else table
    numeric = [table[head].astype(str).str.match(r"^$|^-?[\d.,]+(?:e[-+]\d+)?(?: \[.*\])?$").all() for head in table]
    sides = "".join("r" if each else "l" for each in numeric)
    body = table.to_latex(index=False, escape=True, column_format=sides)
    body = body.replace("→", r"$\to$")
    if not caption:
        return body
    label = re.sub(r"[^\w:.+-]+", "-", name)  # LaTeX reads % and # there
    head = f"\\begin{{table}}\n\\centering\n\\caption{{{escaped(caption)}}}\n\\label{{tab:{label}}}\n"
    return head + f"\\resizebox{{\\linewidth}}{{!}}{{%\n{body.rstrip()}\n}}\n\\end{{table}}\n"


def escaped(text: str) -> str:
    """A text as LaTeX prints it."""
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\to$"}
    return "".join(words.get(c, f"\\{c}" if c in "%&_#${}" else c) for c in text)


def _is_percent(name: str) -> bool:
    words = name.split("_")
    count = words[0] == "only" or words[-1] in ("p", "holm")  # `only_first` counts samples; p is no share
    return not count and not _PERCENT.isdisjoint(words)


def _is_end(name: str, table: pd.DataFrame) -> bool:
    """Whether a column is an end of another one's interval."""
    return name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in table


def _named(table: pd.DataFrame, rows: pd.Series) -> str:
    """What tells these rows from others: their texts in columns that vary, and as many numbers as that takes."""
    words = table.select_dtypes(exclude="number")
    words = words.loc[:, words.nunique() > 1].fillna("").astype(str)
    for name in table.select_dtypes("number"):
        told = len(words.drop_duplicates()) if len(words.columns) else 1
        if not _is_percent(name) and f"{name}_low" not in table and told < len(table):
            more = words.assign(**{name: name.replace("_", " ") + table[name].map(" {:g}".format)})
            words = more if len(more.drop_duplicates()) > told else words
    return ", ".join(" ".join(filter(None, row)) for row in words[rows].itertuples(index=False))


def _cell(value, images=np.inf, low=None, high=None, percent: bool = False) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if float(value).is_integer() and low is None and not percent:
        return f"{int(value):,}"
    digits = (lambda x: f"{100 * x:.1f}") if percent else _three_digits
    if low is None or pd.isna(low):
        return digits(value) + (" [n too small]" if low is not None and images < _FEWEST else "")
    return f"{digits(value)} [{digits(low)}, {digits(high)}]"


def _three_digits(value: float) -> str:
    """Three significant digits, of thousands and more all before the point: 1,350 for 1349.6."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
