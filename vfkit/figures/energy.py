"""Figures of what lies before the states: roughness of the vision tokens, and the image's spectrum."""

from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREY,
    MARKERS,
    RED,
    Series,
    family_axes,
    forest,
    heat_map,
    legend,
    panels,
    spaced,
    styled,
)

_ANSWERS = {"all": (GREY, "all answers"), "kept": (BLUE, "answer kept"), "flipped": (RED, "answer flipped")}
_PANELS = {
    "relative": ("Power, change (%)", "RdBu_r"),
    "coherence": ("Phase coherence", "cividis"),
    "phase": ("Phase coherence,\npower-free", "cividis"),
}


@styled()
def plot_dirichlet(table: pd.DataFrame) -> Figure:
    """Change of the Dirichlet energy per edge by family: all answers, kept, flipped, with intervals (HI 4.5, App. E).

    Args:
        table: of `metrics.dirichlet_table`; after `paper.beside`, with the published values.
    """
    parts = {answer: table[table["answer"] == answer].reset_index(drop=True) for answer in _ANSWERS}
    n = [f"n = {a:,}, {f:,} flipped" for a, f in zip(*(parts[k]["instances"] for k in ("all", "flipped")), strict=True)]
    fig, (ax,) = family_axes(parts["all"], 1, n)
    marks = zip(_ANSWERS.items(), MARKERS, strict=False)
    series = [Series(parts[answer], "delta", colour, label, mark) for (answer, (colour, label)), mark in marks]
    forest(ax, series, scale=1, zero=True)
    ax.set_xlabel("Change of Dirichlet energy per edge,\nperturbed - base")
    legend(fig)
    return fig


@styled()
def plot_spectrum(table: pd.DataFrame, answer: str = "all") -> Figure:
    """What each family does to the image's spectrum, band by band: power, phase coherence and its power-free form.

    Colours of power end at +-100 %: an arrow on the colour bar says that values lie beyond.

    Args:
        table: of `metrics.spectrum_table`. answer: whose instances: `all`, `kept` or `flipped`.
    """
    table = table[table["answer"] == answer]
    bands = list(table["band"].unique())
    counts = table.drop_duplicates("family").set_index("family")["instances"]
    names = [f"{fill(spaced(family), 26)}\nn = {n:,}" for family, n in counts.items()]
    fig, axes = panels(1, 3, 1.7 + 0.32 * max(len(names), 1), sharey=True)
    for ax, (name, (title, colours)) in zip(axes[0], _PANELS.items(), strict=True):
        ax.set_title(title)
        if table.empty:
            continue
        values = table.pivot(index="family", columns="band", values=name).loc[counts.index, bands].astype(float)
        values = (100 * values if name == "relative" else values).set_axis(names)
        reach = min(max(np.nanmax(np.abs(values), initial=0), 1e-9), 100)
        span, shown = ((-reach, reach), "{:+.1f}") if name == "relative" else ((0, 1), "{:.2f}")
        texts = values.map(lambda value, shown=shown: "-" if np.isnan(value) else shown.format(value))
        heat_map(ax, values, texts, cmap=colours, vmin=span[0], vmax=span[1])
        ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
        beyond = ends.get((values.min(axis=None) < span[0], values.max(axis=None) > span[1]), "neither")
        bar = fig.colorbar(ax.collections[0], ax=ax, location="bottom", shrink=0.9, aspect=24, extend=beyond)
        bar.outline.set_visible(False)
    axes[0, 1].set_xlabel(f"Band of spatial frequency ({_ANSWERS[answer][1]})")
    return fig
