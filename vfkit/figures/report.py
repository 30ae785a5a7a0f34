"""Figures over many models and data sets: one row per model, transitions as a grid, verdicts on published numbers."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PAGE,
    RED,
    SKY,
    SMALL,
    Series,
    forest,
    heat_map,
    legend,
    palette,
    panels,
    spaced,
    styled,
)

VERDICT_COLOURS = {"reproduced": GREEN, "differs": RED, "settings differ": ORANGE}
VERDICT_COLOURS |= {"not comparable": GREY, "not run": "#D8D8D8", "not possible": SKY}
_HATCHES = {"reproduced": "", "differs": "/////", "settings differ": ".....", "not comparable": "xxxxx", "not run": ""}
_HATCHES |= {"not possible": "-----"}
_MOVES = {
    "R->R": "right, stays right",
    "R->W": "right to wrong",
    "W->R": "wrong to right",
    "W->W": "wrong, stays wrong",
}


@styled()
def plot_models(table: pd.DataFrame, columns: Mapping[str, str], by: str = "dataset", scale: float = 100) -> Figure:
    """Numbers by model with their intervals, one panel each, data sets (or levels) side by side in each row.

    Args:
        table: one row per `model` and value of `by`, models in their order.
        columns: of the panels, with their axis labels.
    """
    models, datasets = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table[by]))
    fig, axes = panels(1, len(columns), 0.9 + len(models) * max(0.2, 0.13 * len(datasets)), PAGE, sharey=True)
    for ax, (column, label) in zip(axes[0], columns.items(), strict=True):
        series = []
        for dataset, colour, marker in zip(datasets, palette(len(datasets)), MARKERS * 4, strict=False):
            own = table[table[by] == dataset].set_index("model").reindex(models).reset_index()
            series.append(Series(own, column, colour, dataset, marker))
        forest(ax, series, scale, spread=0.36)
        ax.set_xlabel(label)
        ax.set_xlim(left=min(0, ax.get_xlim()[0]) if table[column].min() >= 0 else None)
        ax.grid(axis="y", visible=False)
        for row in range(len(models) - 1):
            ax.axhline(row + 0.5, color="#E2E2E2", linewidth=0.6, zorder=0)
    axes[0, 0].set_yticks(np.arange(len(models)), models)
    axes[0, 0].set_ylim(len(models) - 0.5, -0.5)
    legend(fig)
    return fig


@styled()
def plot_transition_grid(table: pd.DataFrame, families: Sequence[str]) -> Figure:
    """The four transitions by family and model, in per cent of all instances (HI Figures 4 and 5), of one data set.

    Args:
        table: of `metrics.transition_table` by `model`, models in their order. families: the columns, in order.
    """
    models = list(dict.fromkeys(table["model"]))
    fig, axes = panels(2, 2, 0.9 + 0.36 * max(len(models), 2), PAGE, sharex=True, sharey=True)
    for ax, (move, label) in zip(axes.flat, _MOVES.items(), strict=True):
        share = 100 * table[move] / table["instances"].where(table["instances"] > 0)
        values = table.assign(share=share).pivot(index="model", columns="family", values="share")
        values = values.reindex(index=models, columns=list(families))
        heat_map(
            ax, values, values.map(lambda x: "" if pd.isna(x) else f"{x:.1f}"), cmap="Blues", vmin=0, linewidths=0.5
        )
        ax.set_title(f"{move}: {label}")
    heads = ["union" if name.startswith("union") else spaced(name) for name in families]
    for ax in axes[1]:
        ax.set_xticks(
            np.arange(len(families)) + 0.5, heads, fontsize=SMALL, rotation=45, ha="right", rotation_mode="anchor"
        )
    return fig


@styled()
def plot_verdicts(table: pd.DataFrame) -> Figure:
    """Verdicts on published numbers, by the paper's table, figure or section.

    Args:
        table: of `paper.verdicts`.
    """
    item = table["where"].str.replace(r" \((?:run \d|mean of 4 runs|v1|L2)\)| caption", "", regex=True)
    item = table["paper"] + " " + item.str.split(" / ").str[-1]
    counts = pd.crosstab(item, table["verdict"]).reindex(list(dict.fromkeys(item)))
    fig, ((ax,),) = panels(1, 1, 0.9 + 0.17 * len(counts), PAGE)
    left = np.zeros(len(counts))
    for verdict, colour in VERDICT_COLOURS.items():
        n = counts.get(verdict, pd.Series(0, counts.index)).to_numpy(float)
        ax.barh(
            np.arange(len(counts)),
            n,
            left=left,
            color=colour,
            height=0.72,
            label=f"{verdict} ({int(n.sum())})",
            hatch=_HATCHES[verdict],
            edgecolor="white",
        )
        left += n
    ax.set_yticks(np.arange(len(counts)), counts.index)
    ax.set_ylim(len(counts) - 0.5, -0.5)
    ax.set_xlabel(f"Published numbers (of {len(table)})")
    ax.grid(axis="y", visible=False)
    legend(fig, ncols=3)
    return fig


@styled()
def plot_published(table: pd.DataFrame, columns: Sequence[str] = ("reproduced", "differs")) -> Figure:
    """Differences from published numbers in units of their margins: beyond 1 they differ.

    Args:
        table: of `paper.verdicts`. columns: the verdicts drawn.
    """
    own = table[table["verdict"].isin(columns) & table["margin"].gt(0)]
    ratio = (own["difference"] / own["margin"]).clip(-4, 4)
    fig, ((ax,),) = panels(1, 1, 2.4)
    bins = np.linspace(-4, 4, 49).tolist()
    ax.hist(ratio, bins=bins, color=BLUE, alpha=0.85)
    for end in (-1, 1):
        ax.axvline(end, color=RED, linestyle="--", linewidth=1, label="margin" if end == 1 else None)
    ax.set(xlabel="(ours - published) / margin", ylabel="Published numbers", xlim=(-4, 4))
    legend(fig)
    return fig
