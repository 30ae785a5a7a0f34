"""Figures of what lies before the states: roughness of the vision tokens, and the image's spectrum."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm

from vfkit.figures.style import BLUE, GREY, INK, RED, family_axes, heat_map, legend, styled, whiskers

_ANSWERS = {"all": (GREY, "all answers"), "kept": (BLUE, "answer kept"), "flipped": (RED, "answer flipped")}
_PANELS = {
    "relative": ("Power, change (%)", "RdBu_r"),
    "coherence": ("Phase coherence", "viridis"),
    "phase": ("Phase coherence, power-free", "viridis"),
}


@styled()
def plot_dirichlet(table: pd.DataFrame) -> Axes:
    """Change of the Dirichlet energy per edge by family: all answers, kept, flipped, with intervals (HI 4.5, App. E).

    Args:
        table: of `metrics.dirichlet_table`; after `paper.beside`, with the published values.
    """
    parts = {answer: table[table["answer"] == answer].reset_index(drop=True) for answer in _ANSWERS}
    n = [f"n = {a:,}, {f:,} flipped" for a, f in zip(*(parts[k]["instances"] for k in ("all", "flipped")), strict=True)]
    fig, (ax,) = family_axes(parts["all"], 1, n)
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    for (answer, (colour, label)), offset in zip(_ANSWERS.items(), (-0.22, 0, 0.22), strict=True):
        whiskers(ax, parts[answer], "delta", colour, label, offset, scale=1)
    if "delta_published" in table and table["delta_published"].notna().any():
        every = parts["all"]
        label = "published: " + ", ".join(source for source in every["published_source"].unique() if source)
        y = np.arange(len(every)) - 0.22
        ax.plot(every["delta_published"], y, "D", linestyle="", mfc="none", mec=INK, markersize=7, label=label)
    ax.set_xlabel("Change of Dirichlet energy per edge, perturbed - base")
    legend(fig, [ax])
    return ax


@styled()
def plot_spectrum(table: pd.DataFrame, answer: str = "all") -> np.ndarray:
    """What each family does to the image's spectrum, band by band: power, phase coherence and its power-free form.

    Args:
        table: of `metrics.spectrum_table`. answer: whose instances: `all`, `kept` or `flipped`.

    Returns:
        The three axes, heat maps [family, band].
    """
    table = table[table["answer"] == answer]
    bands = list(table["band"].unique())
    families = table.drop_duplicates("family").reset_index(drop=True)
    fig, axes = family_axes(families, 3, [f"n = {row.instances:,}" for row in families.itertuples()])
    fig.set_size_inches(9.4, 1.6 + 0.4 * max(len(families), 1))
    for ax, (name, (title, colours)) in zip(axes, _PANELS.items(), strict=True):
        ax.set_title(title)
        if table.empty:
            continue
        values = table.pivot(index="family", columns="band", values=name).loc[families["family"], bands].to_numpy(float)
        values = 100 * values if name == "relative" else values
        reach = max(np.nanmax(np.abs(values), initial=0), 1e-9)
        norm = TwoSlopeNorm(0, -min(reach, 100), min(reach, 100)) if name == "relative" else Normalize(0, 1)
        shown = "{:+.1f}" if name == "relative" else "{:.2f}"
        texts = [["-" if np.isnan(value) else shown.format(value) for value in row] for row in values]
        heat_map(ax, values, texts, colours, norm)
        ax.set_xticks(np.arange(len(bands)), bands)
    axes[1].set_xlabel(f"Band of spatial frequency ({_ANSWERS[answer][1]})")
    return axes
