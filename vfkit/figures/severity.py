"""Figures of severity: flips and drift against the strength of a perturbation, and which of the two comes first."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    RED,
    SMALL,
    Series,
    curves,
    family_axes,
    forest,
    legend,
    panels,
    styled,
)
from vfkit.perturb.severity import KINDS, PREFIX

_CURVES = {
    "IFR": (RED, "D", "answer flipped"),
    "beyond": (BLUE, "o", "state beyond its control"),
    "hidden": (ORANGE, "s", "beyond, answer kept: hidden instability"),
}
_ONSETS = {
    "flip_onset": (RED, ":", "onset of flips"),
    "drift_onset": (BLUE, "-.", "onset of states beyond their control"),
}
_COLUMNS = 4


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
    fig, axes = panels(rows, columns, 0.2 + 1.8 * rows, sharey=True)
    for ax in axes.ravel()[len(families) :]:
        ax.set_visible(False)
    for ax, family in zip(axes.ravel(), families, strict=False):
        own = table[table["family"] == family]
        series = [Series(own, name, colour, label, mark) for name, (colour, mark, label) in _CURVES.items()]
        curves(ax, series, "strength", 100)
        for row in onsets[onsets["family"] == family].to_dict("records"):
            for name, (colour, dots, label) in _ONSETS.items():
                if np.isfinite(row[name]):
                    ax.axvline(row[name], color=colour, linestyle=dots, linewidth=1.3, zorder=1, label=label)
        ax.axhline(100 * level, color=GREY, linestyle="--", linewidth=0.9, zorder=1, label=f"{100 * level:.0f} %")
        kind = family.removeprefix(PREFIX)
        ax.set_title(f"{kind}, n = {own['samples'].max():,}", fontsize=SMALL)
        ax.set(xlabel=KINDS[kind][1] if kind in KINDS else "strength", ylim=(-3, 103))
        ax.xaxis.label.set_fontsize(SMALL)
    for ax in axes[:, 0]:
        ax.set_ylabel("Share of readings (%)")
    legend(fig)
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
    forest(ax, [Series(shown, "lead", BLUE, "lead")], zero=True)
    ax.set_xlabel("States beyond their control - answers\nflipped (points over all strengths)")
    ax.text(0.99, 1.01, "state first", transform=ax.transAxes, ha="right", fontsize=SMALL, color=INK)
    ax.text(0.01, 1.01, "answer first", transform=ax.transAxes, ha="left", fontsize=SMALL, color=INK)
    legend(fig)
    return fig
