"""The look of every figure, its size in print, and the panels and marks that all are made of."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

COLUMN, PAGE = 3.5, 7.0  # inches: one column of print, and both; figures are drawn at the size they are printed in
SMALL = 7  # points: the smallest letters
_LETTER = 0.06  # inches: width of a small letter, on average

# Okabe and Ito's palette: told apart by colour-blind readers too
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, INK = "#767676", "#222222"

PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED)
MARKERS = "osD^vPX<>*phd8"  # series are told apart by shape too: in grey print, and by colour-blind readers
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_HOLLOW = "Dsv^<>ph*d8o"  # one marker per published source and series

_RC: dict[Any, Any] = sns.axes_style("whitegrid") | {
    "axes.edgecolor": INK,
    "axes.labelsize": 8,
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 8,
    "figure.constrained_layout.use": True,
    "figure.titlesize": 8,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "grid.color": "#E2E2E2",
    "hatch.linewidth": 0.8,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
}


def palette(n: int) -> list[str]:
    """Return n colours: those of the kit, or evenly spaced ones where these do not suffice."""
    return list(PALETTE[:n]) if n <= len(PALETTE) else sns.color_palette("husl", n).as_hex()


@contextmanager
def styled() -> Iterator[None]:
    """The kit's look, as a context (`with styled():`) or a decorator; the caller's own settings stay as they were."""
    with plt.rc_context(_RC):
        yield
        interactive = plt.isinteractive()
    # a notebook's backend starts with its first figure and turns this on: taken back, it would show no second one
    matplotlib.interactive(interactive)


def heat_map(ax: Axes, values: pd.DataFrame, texts: pd.DataFrame, **options) -> None:
    """A table as coloured cells, each with its text. `options` are seaborn's: `cmap`, `vmin`, `vmax`, `center`."""
    sns.heatmap(values.astype(float), ax=ax, annot=texts, fmt="", cbar=False, annot_kws={"fontsize": SMALL}, **options)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelrotation=0)
    ax.grid(visible=False)


def panels(rows: int, columns: int, height: float, width: float = 0, **options: Any) -> tuple[Figure, np.ndarray]:
    """Return a figure and its axes [row, column].

    Args:
        height, width: in inches; without a width, that of a page, or of one column of print for panels in one column.
        options: of `plt.subplots`, such as `sharey`.
    """
    size = (width or (PAGE if columns > 1 else COLUMN), height)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, **options)


def letters(width: float) -> int:
    """Return how many small letters fit into a width in inches."""
    return int(width / _LETTER)


def spaced(name: str) -> str:
    """Return a family's name in words. What stands before a colon is the name of a model, and keeps its underscores."""
    model, colon, family = name.rpartition(": ")
    return model + colon + family.replace("_", " ")


def _broken(name: str, width: int) -> str:
    """A name in lines of at most so many letters, broken after a colon first."""
    return "\n".join(fill(part, width) for part in name.replace(": ", ":\n" if len(name) > width else ": ").split("\n"))


def family_axes(table: pd.DataFrame, n_panels: int, n: list[str]) -> tuple[Figure, np.ndarray]:
    """Return a figure with one row per family, top down, named with its n, and as many panels.

    Up to three panels stand side by side, more in two lines.
    """
    rows, lines = max(len(table), 1), 1 if n_panels <= 3 else 2
    names = [f"{_broken(spaced(family), 26)}\n{count}" for family, count in zip(table["family"], n, strict=True)]
    each = 0.12 * max((name.count("\n") + 1 for name in names), default=1) + (0.06 if lines == 1 else 0.02)
    fig, axes = panels(
        lines, -(-n_panels // lines), 0.1 + lines * (0.45 + 0.17 * (lines - 1) + each * rows), sharey=True
    )
    axes[0, 0].set_yticks(np.arange(len(table)), names)
    axes[0, 0].set_ylim(rows - 0.5, -0.5)
    for ax in axes.flat:
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        if table.empty:
            ax.set_xticks([])
            ax.text(0.5, 0.5, "no instances", transform=ax.transAxes, ha="center", va="center", color=GREY)
    return fig, axes.ravel()


class Series(NamedTuple):
    """One set of points of a forest plot or a curve: the rows of a table, from top to bottom or from left to right."""

    table: pd.DataFrame
    name: str  # the column of the points; `<name>_low`, `<name>_high` are their intervals
    colour: str
    label: str
    marker: str = "o"


def forest(ax: Axes, series: Sequence[Series], scale: float = 100, spread: float = 0.3, zero: bool = False) -> None:
    """Draw points with their intervals, one row per row of the tables; several series stand side by side in each row.

    With too few images there is no interval, and the legend says so of points without one. Published values
    (`<name>_published`) are hollow markers, one shape per source and series. `zero` draws the line of no change.
    """
    if zero:
        ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    offsets, bare = np.linspace(-spread, spread, 2 * len(series) + 1)[1::2], False
    for one, offset in zip(series, offsets, strict=True):
        y = np.arange(len(one.table)) + offset
        low, value, high = (scale * one.table[f"{one.name}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
        ax.hlines(y, low, high, color=one.colour, linewidth=1.4, zorder=2)
        ax.plot(value, y, one.marker, linestyle="", color=one.colour, markersize=4, label=one.label, zorder=3)
        bare |= bool((np.isfinite(value) & ~np.isfinite(low)).any())
        if f"{one.name}_published" in one.table:
            of, colour = (f" ({one.label})", one.colour) if len(series) > 1 else ("", INK)
            _published(ax, scale * one.table[f"{one.name}_published"], one.table["published_source"], y, of, colour)
    explain_bars(ax, bare)


def explain_bars(ax: Axes, bare: bool) -> None:
    """Say in the legend what bars are and, where a point is `bare`, why it has none."""
    ax.plot([], [], "-", color=INK, linewidth=1.4, label="95 % interval")
    if bare:
        ax.plot([], [], " ", label="no bar: too few images (or items) for an interval")


def _published(ax: Axes, values: pd.Series, sources: pd.Series, y: np.ndarray, of: str, colour: str) -> None:
    there = values.notna() & sources.fillna("").ne("")
    for source in sources[there].unique():
        here, label = there & sources.eq(source), f"published{of}: {source}"
        ax.plot(values[here], y[here], **hollow(ax, label, colour))


def hollow(ax: Axes, label: str, colour: str = INK) -> dict[str, Any]:
    """Return the style of a published value's marker: one shape for one label, and no two labels share theirs."""
    axes = ax.figure.get_figure(root=True).axes  # type: ignore[union-attr]
    marks = {line.get_label(): line.get_marker() for one in axes for line in one.lines}
    shapes = {mark for name, mark in marks.items() if str(name).startswith("published")}
    free = next((mark for mark in _HOLLOW if mark not in shapes), _HOLLOW[0])
    mark = dict(marker=marks.get(label, free), mfc="none", mec=colour, mew=1, markersize=6)
    return mark | dict(linestyle="", color=colour, label=label, zorder=4)


def curves(
    ax: Axes, series: Sequence[Series], x: str, scale: float = 1, log: bool = False, apart: float = 0.012
) -> None:
    """Draw lines over column `x`, with their intervals as bars.

    Each series has its own marker and dash, and stands a little beside the one before (`apart`: share of the axis),
    so that none hides another.
    """
    span = pd.concat([one.table[x] for one in series]) if series else pd.Series([0.0, 1.0])
    low, high = float(span.min()), float(span.max())
    bare = False
    for i, one in enumerate(series):
        beside, at = apart * (i - (len(series) - 1) / 2), one.table[x].to_numpy(float)
        at = at * (high / low) ** beside if log else at + beside * (high - low)
        bottom, value, top = (scale * one.table[f"{one.name}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
        ax.vlines(at, bottom, top, color=one.colour, linewidth=1, zorder=2)
        style: dict[str, Any] = dict(marker=one.marker, linestyle=DASHES[i % len(DASHES)], color=one.colour)
        ax.plot(at, value, **style, markersize=3.5, linewidth=1.2, label=one.label, zorder=3)
        bare |= bool((np.isfinite(value) & ~np.isfinite(bottom)).any())
    if log:
        ax.set_xscale("log")
    explain_bars(ax, bare)


def log_ticks(ax: Axes, low: float, high: float) -> None:
    """Make the horizontal axis logarithmic, with at least two ticks that do not touch."""
    ax.set(xscale="log", xlim=(low, high))
    decades = math.log10(high / low)
    steps = (1.0,) if decades > 2 else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=steps, numticks=6))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def noise_floor(ax: Axes, value: float, label: str = "noise floor (identity)", axis: str = "x") -> None:
    """The flip rate, or drift, of the same pixels read again, as a dashed line."""
    line = ax.axvline if axis == "x" else ax.axhline
    line(value, color=INK, linestyle="--", linewidth=1, label=label, zorder=1)


def legend(fig: Figure, ncols: int = 4) -> None:
    """Draw one legend below all panels, each label once, ours before notes and published values.

    Labels are broken at the width of a column of print; as many columns stand side by side as the figure holds, at most
    `ncols`. The figure grows by the height of the legend, so that the panels keep theirs.
    """
    handles: dict[str, Any] = {}
    for ax in fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    ends = ("95 % interval", "no bar", "published")
    labels = sorted(handles, key=lambda label: next((i for i, end in enumerate(ends, 1) if label.startswith(end)), 0))
    if labels:
        texts = [fill(label, letters(COLUMN) - 7) for label in labels]
        widest = max(len(line) for text in texts for line in text.split("\n"))
        ncols = min(max(letters(fig.get_figwidth()) // (widest + 6), 1), ncols, len(labels))
        drawn, lines = [handles[label] for label in labels], sum(text.count("\n") + 1 for text in texts)
        fig.set_figheight(fig.get_figheight() + 0.15 * math.ceil(lines / ncols) + 0.1)
        fig.legend(handles=drawn, labels=texts, loc="outside lower center", ncols=ncols)


def save(fig: Figure, folder: str | Path, name: str, data: pd.DataFrame) -> dict[str, Path]:
    """Write `name`.png (300 dpi), `name`.pdf, and `name`.csv with the numbers drawn; the folder is made if need be.

    Returns:
        The three paths, by suffix: `png`, `pdf`, `csv`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv")}
    with plt.rc_context({"pdf.fonttype": 42}):  # text in the PDF stays text
        fig.savefig(paths["png"], dpi=300)
        fig.savefig(paths["pdf"], metadata={"CreationDate": None})  # same figure, same file
    data.to_csv(paths["csv"], index=False)
    return paths
