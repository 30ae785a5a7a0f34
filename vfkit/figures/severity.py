"""Figures of severity: flips and drift against the strength of a perturbation, and which of the two comes first."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vfkit.figures.style import BLUE, GREY, INK, ORANGE, RED, Series, family_axes, forest, legend, styled
from vfkit.perturb.severity import KINDS, PREFIX

_CURVES = {
    "IFR": (RED, "D", "answer flipped"),
    "beyond": (BLUE, "o", "state beyond its control"),
    "hidden": (ORANGE, "s", "beyond, answer kept: hidden instability"),
}
_ONSETS = {"flip_onset": (RED, "onset of flips"), "drift_onset": (BLUE, "onset of states beyond their control")}
_COLUMNS = 5


@styled()
def plot_severity(table: pd.DataFrame, onsets: pd.DataFrame, level: float = 0.1) -> Figure:
    """Flips, states beyond their control and hidden instability against strength, a panel for each family.

    Args:
        table: of `metrics.severity_table`. onsets: of `metrics.onset_table`, whose onsets are drawn as lines.
        level: the share that counts as onset, drawn as a line.
    """
    families = list(table["family"].unique())
    columns = max(min(_COLUMNS, len(families)), 1)
    rows = max(-(-len(families) // columns), 1)
    size = (1.2 + 2.2 * columns, 0.9 + 2.3 * rows)
    fig, axes = plt.subplots(rows, columns, figsize=size, sharey=True, squeeze=False)
    for ax in axes.ravel()[len(families) :]:
        ax.set_visible(False)
    for ax, family in zip(axes.ravel(), families, strict=False):
        own = table[table["family"] == family]
        for name, (colour, mark, label) in _CURVES.items():
            _curve(ax, own, name, colour, mark, label)
        for row in onsets[onsets["family"] == family].to_dict("records"):
            for name, (colour, label) in _ONSETS.items():
                if np.isfinite(row[name]):
                    ax.axvline(row[name], color=colour, linestyle=":", linewidth=1.3, zorder=1, label=label)
        ax.axhline(100 * level, color=GREY, linestyle="--", linewidth=0.9, zorder=1, label=f"{100 * level:.0f} %")
        kind = family.removeprefix(PREFIX)
        ax.set_title(f"{kind}, n = {own['samples'].max():,}", fontsize=9)
        ax.set(xlabel=KINDS[kind][1] if kind in KINDS else "strength", ylim=(-3, 103))
        ax.xaxis.label.set_fontsize(8)
    for ax in axes[:, 0]:
        ax.set_ylabel("Share of readings (%)")
    legend(fig, ncols=3)
    return fig


@styled()
def plot_onsets(onsets: pd.DataFrame) -> Figure:
    """By how much of the strengths the state passes its control before the answer flips, by family.

    Args:
        onsets: of `metrics.onset_table`.
    """
    shown = onsets.assign(family=onsets["family"].str.removeprefix(PREFIX))
    fig, (ax,) = family_axes(
        shown, 1, [f"n = {row.instances:,} in {row.samples:,} samples" for row in shown.itertuples()]
    )
    forest(ax, [Series(shown, "lead", BLUE, "lead, 95 % interval")], zero=True)
    ax.set_xlabel("States beyond their control - answers flipped (points over all strengths)")
    ax.xaxis.label.set_fontsize(8)
    ax.text(0.99, 1.01, "state first", transform=ax.transAxes, ha="right", fontsize=8, color=INK)
    ax.text(0.01, 1.01, "answer first", transform=ax.transAxes, ha="left", fontsize=8, color=INK)
    return fig


def _curve(ax: Axes, table: pd.DataFrame, name: str, colour: str, mark: str, label: str) -> None:
    """A rate, with its interval as a band where it is one of the two that are compared."""
    low, value, high = (100 * table[f"{name}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
    at = table["strength"].to_numpy(float)
    if name != "hidden":  # three bands would hide each other; the table has its interval
        ax.fill_between(at, low, high, color=colour, alpha=0.13, linewidth=0)
    ax.plot(at, value, mark, linestyle="-", color=colour, markersize=3, linewidth=1.3, label=label)
