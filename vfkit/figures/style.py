"""The one look of all figures, and how they are saved."""

import itertools
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

# Okabe and Ito's palette: told apart by colour-blind readers too
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, INK = "#8C8C8C", "#222222"
_HOLLOW = "Dsv^"  # one marker per published source

PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED)
MARKERS = "osD^vP"  # colours are told apart by shape too

_RC: dict[Any, Any] = sns.axes_style("whitegrid") | {
    "axes.edgecolor": INK,
    "axes.labelsize": 9,
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#E2E2E2",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def palette(n: int) -> list[str]:
    """n colours: those of the kit, or where they do not suffice evenly spaced ones."""
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
    sns.heatmap(values.astype(float), ax=ax, annot=texts, fmt="", cbar=False, annot_kws={"fontsize": 8}, **options)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelrotation=0)
    ax.grid(visible=False)


def family_axes(table: pd.DataFrame, panels: int, n: list[str]) -> tuple[Figure, np.ndarray]:
    """A figure with one row per family, top down, named with its n, and that many panels side by side."""
    rows = max(len(table), 1)
    fig, axes = plt.subplots(1, panels, figsize=(2.2 + 3.3 * panels, 1.5 + 0.42 * rows), sharey=True, squeeze=False)
    names = [f"{fill(family.replace('_', ' '), 34)}\n{count}" for family, count in zip(table["family"], n, strict=True)]
    axes[0, 0].set_yticks(np.arange(len(table)), names)
    axes[0, 0].set_ylim(rows - 0.5, -0.5)
    for ax in axes[0]:
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        if table.empty:
            ax.set_xticks([])
            ax.text(0.5, 0.5, "no instances", transform=ax.transAxes, ha="center", va="center", color=GREY)
    return fig, axes[0]


class Series(NamedTuple):
    """One set of points of a forest plot: the rows of a table, from top to bottom."""

    table: pd.DataFrame
    name: str  # the column of the points; `<name>_low`, `<name>_high` are their intervals
    colour: str
    label: str
    marker: str = "o"


def forest(ax: Axes, series: Sequence[Series], scale: float = 100, spread: float = 0.3, zero: bool = False) -> None:
    """Points with their intervals, one row per row of the tables; several series stand side by side in each row.

    Below five images there is no interval, and the point stands by itself. Published values (`<name>_published`) are
    hollow markers, one form per source. `zero` draws the line of no change.
    """
    if zero:
        ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    offsets = np.linspace(-spread, spread, 2 * len(series) + 1)[1::2]
    for one, offset in zip(series, offsets, strict=True):
        y = np.arange(len(one.table)) + offset
        low, value, high = (scale * one.table[f"{one.name}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
        ax.hlines(y, low, high, color=one.colour, linewidth=1.6, zorder=2)
        ax.plot(value, y, one.marker, linestyle="", color=one.colour, markersize=5, label=one.label, zorder=3)
        if f"{one.name}_published" in one.table:
            _published(ax, scale * one.table[f"{one.name}_published"], one.table["published_source"], y)


def _published(ax: Axes, values: pd.Series, sources: pd.Series, y: np.ndarray) -> None:
    there = values.notna() & sources.fillna("").ne("")
    for source, marker in zip(sources[there].unique(), itertools.cycle(_HOLLOW), strict=False):
        here = there & sources.eq(source)
        label = f"published: {source}"
        ax.plot(values[here], y[here], marker, linestyle="", mfc="none", mec=INK, markersize=7, label=label, zorder=4)


def noise_floor(ax: Axes, value: float, label: str = "noise floor (identity)", axis: str = "x") -> None:
    """The flip rate, or drift, of the same pixels read again, as a dashed line."""
    line = ax.axvline if axis == "x" else ax.axhline
    line(value, color=INK, linestyle="--", linewidth=1, label=label, zorder=1)


def legend(fig: Figure, ncols: int = 2) -> None:
    """One legend below all panels, each label once, ours before the published."""
    handles: dict[str, Any] = {}
    for ax in fig.axes:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = sorted(handles, key=lambda label: label.startswith("published"))
    if labels:
        drawn = [handles[label] for label in labels]
        fig.legend(handles=drawn, labels=labels, loc="outside lower center", ncols=ncols)


def save(fig: Figure, folder: str | Path, name: str, data: pd.DataFrame) -> dict[str, Path]:
    """Write `name`.png (150 dpi), `name`.pdf, and `name`.csv with the numbers drawn; the folder is made if need be.

    Returns:
        The three paths, by suffix: `png`, `pdf`, `csv`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv")}
    with plt.rc_context({"pdf.fonttype": 42}):  # text in the PDF stays text
        fig.savefig(paths["png"], dpi=150, bbox_inches="tight")
        fig.savefig(paths["pdf"], bbox_inches="tight", metadata={"CreationDate": None})  # same figure, same file
    data.to_csv(paths["csv"], index=False)
    return paths
