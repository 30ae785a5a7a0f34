"""The one look of all figures, and how they are saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by colour-blind readers too
BLUE, ORANGE, GREEN, RED, PINK, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, INK = "#8C8C8C", "#222222"
_HOLLOW = "Dsv^"  # one marker per published source

_RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PINK, SKY]),
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


@contextmanager
def styled() -> Iterator[None]:
    """The kit's look, as a context (`with styled():`) or a decorator; the caller's own settings stay as they were."""
    with plt.rc_context(_RC):
        yield
        interactive = plt.isinteractive()
    # a notebook's backend starts with its first figure and turns this on: taken back, it would show no second one
    matplotlib.interactive(interactive)


def heat_map(ax: Axes, values: np.ndarray, texts: list[list[str]], colours: str, norm: Normalize) -> None:
    """Values [row, column] as coloured cells, each with its text, dark on light and light on dark."""
    ax.imshow(values, cmap=colours, norm=norm, aspect="auto")
    for (y, x), value in np.ndenumerate(values):
        shade = plt.get_cmap(colours)(norm(value))[:3] if np.isfinite(value) else (1, 1, 1)
        dark = np.dot(shade, (0.3, 0.59, 0.11)) < 0.5
        ax.text(x, y, texts[y][x], ha="center", va="center", fontsize=8, color="white" if dark else INK)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def family_axes(table: pd.DataFrame, panels: int, n: list[str]) -> tuple[plt.Figure, np.ndarray]:
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


def whiskers(ax: Axes, table: pd.DataFrame, name: str, colour: str, label: str, offset: float = 0, scale: float = 100):
    """Points with their intervals; where there are too few images for an interval, the point stands alone."""
    y = np.arange(len(table)) + offset
    value, low, high = (scale * table[column].to_numpy(float) for column in (name, f"{name}_low", f"{name}_high"))
    ax.hlines(y, low, high, color=colour, linewidth=1.6, zorder=2)
    ax.plot(value, y, "o", color=colour, markersize=5, label=label, zorder=3)


def published_markers(ax: Axes, table: pd.DataFrame, name: str, offset: float) -> None:
    if f"{name}_published" not in table:
        return
    y, value = np.arange(len(table)) + offset, 100 * table[f"{name}_published"]
    sources = [source for source in table["published_source"].dropna().unique() if source]
    for source, marker in zip(sources, _HOLLOW, strict=False):
        here = (table["published_source"] == source) & value.notna()
        label = f"published: {source}"
        ax.plot(value[here], y[here], marker, linestyle="", mfc="none", mec=INK, markersize=7, label=label, zorder=4)


def legend(fig: Any, axes) -> None:
    """One legend below all panels, each label once, ours before the published."""
    handles: dict[str, Any] = {}
    for ax in axes:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = sorted(handles, key=lambda label: label.startswith("published"))
    fig.legend(handles=[handles[label] for label in labels], labels=labels, loc="outside lower center", ncols=2)


def save(fig: Figure, folder: str | Path, name: str, data: pd.DataFrame) -> dict[str, Path]:
    """Write `name`.png (150 dpi), `name`.pdf, and `name`.csv with the numbers drawn; the folder is made if need be.

    Returns:
        The three paths, by suffix: `png`, `pdf`, `csv`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv")}
    fig = fig.get_figure(root=True)  # a gallery's axes sit in sub-figures
    with plt.rc_context({"pdf.fonttype": 42}):  # text in the PDF stays text
        fig.savefig(paths["png"], dpi=150, bbox_inches="tight")
        fig.savefig(paths["pdf"], bbox_inches="tight", metadata={"CreationDate": None})  # same figure, same file
    data.to_csv(paths["csv"], index=False)
    return paths
