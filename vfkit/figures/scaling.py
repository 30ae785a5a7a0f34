"""Figures across models: rates against size, differences between sizes, and how far models agree on what flips most."""

import itertools
from collections.abc import Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from vfkit.figures.style import (
    DASHES,
    GREY,
    INK,
    MARKERS,
    PAGE,
    SMALL,
    Series,
    explain_bars,
    family_axes,
    forest,
    heat_map,
    hollow,
    legend,
    noise_floor,
    palette,
    panels,
    spaced,
    styled,
)
from vfkit.metrics.scaling import size_name
from vfkit.perturb import HI_FAMILIES

_APART = 0.05  # of the size axis: neighbouring points are at least so far apart
_OF = {"R->W_rate": "base_right", "W->R_rate": "base_wrong"}  # rate -> number of instances it is of
_FLOORS = {"overlay_IFR": "identity_IFR", "union_IFR": "identity_IFR"}
# column of `metrics.scale_summary` -> axis label and factor
_NAMES = {
    "accuracy": ("Base accuracy\n(% of samples)", 100),
    "overlay_IFR": ("Text overlay, IFR\n(% of instances)", 100),
    "union_IFR": ("Union, IFR\n(% of instances)", 100),
    "union_IV": ("Union, IV\n(% of samples)", 100),
    "R->W_rate": ("R->W\n(% of base-correct instances)", 100),
    "W->R_rate": ("W->R\n(% of base-wrong instances)", 100),
    "percent_kept": ("Drift, answer kept\n(% of another image's)", 1),
    "percent_flipped": ("Drift, answer flipped\n(% of another image's)", 1),
    "hidden": ("Hidden instability\n(% of instances)", 100),
}


@styled()
def plot_scale(table: pd.DataFrame, columns: Sequence[str]) -> Figure:
    """Rates against the number of parameters, with their intervals; a line joins sizes of one series that have one.

    Args:
        table: of `metrics.scale_summary`; after `paper.beside_scale`, with the published values of its models.
        columns: rates in it, one panel each.

    One row of panels per data set. Points that would cover one another are moved apart along the size axis.
    """
    table = table[table["params"].notna()].reset_index(drop=True)
    datasets = list(table["dataset"].unique())
    fig, axes = panels(len(datasets), len(columns), 0.4 + 2.1 * len(datasets), sharex=True)
    models = table.drop_duplicates("model")
    params = models.set_index("model")["params"].astype(float)
    at = _apart(params)
    series = list(models["series"].unique())
    marks = dict(zip(models["model"], itertools.cycle(MARKERS), strict=False))
    order = list(at.sort_values().index)  # neighbours have their n on different sides
    for row, dataset in zip(axes, datasets, strict=True):
        own = table[table["dataset"] == dataset]
        row[0].set_title(f"{dataset}, n = {int(own['samples'].iloc[0]):,} samples")
        for ax, column in zip(row, columns, strict=True):
            name, scale = _NAMES[column]
            for one, part in own.groupby("series", sort=False):
                number = series.index(one)
                colour, dash = palette(len(series))[number], DASHES[number % len(DASHES)]
                part = part.sort_values("params", kind="stable")
                x = part["model"].map(at)
                known = part[column].where(part[f"{column}_low"].notna())
                ax.plot(x, scale * known, color=colour, linestyle=dash, linewidth=1, zorder=2)
                for point in part.to_dict("records"):
                    model = point["model"]
                    _point(ax, at[model], point, column, scale, colour, marks[model], order.index(model) % 2 == 0)
            explain_bars(ax, bool((own[column].notna() & own[f"{column}_low"].isna()).any()))
            _references(ax, own, column, scale)
            ax.set_ylabel(name, fontsize=SMALL)
            ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    _size_axis(axes, params, at, room=0.27 if _OF.keys() & set(columns) else 0.15)
    legend(fig)
    return fig


def _point(ax: Axes, x: float, row: dict, column: str, scale: float, colour: str, marker: str, left: bool) -> None:
    label = f"{row['model']} ({size_name(row['params'])}, {row['series']})"
    ax.vlines(x, scale * row[f"{column}_low"], scale * row[f"{column}_high"], color=colour, linewidth=1.6, zorder=2)
    ax.plot(x, scale * row[column], marker, linestyle="", color=colour, markersize=5, label=label, zorder=3)
    if column in _OF:
        at, text, away = (x, scale * row[column]), f"n = {int(row[_OF[column]]):,}", -5 if left else 5
        style: dict = dict(textcoords="offset points", ha="right" if left else "left", fontsize=SMALL, color=INK)
        ax.annotate(text, at, (away, 3), **style, annotation_clip=True)
    if pd.notna(published := row.get(f"{column}_published", np.nan)):
        label = f"published: {row['published_source']}"
        ax.plot(x, scale * published, **hollow(ax, label))


def _references(ax: Axes, own: pd.DataFrame, column: str, scale: float) -> None:
    """Chance beside accuracy, the noise floor beside flip rates."""
    if column == "accuracy":
        ax.axhline(scale * own["chance"].mean(), color=GREY, linestyle=":", linewidth=1.2, label="chance", zorder=1)
    floor = own[_FLOORS[column]].max() if column in _FLOORS else np.nan
    if np.isfinite(floor):
        label = "noise floor (identity), largest"
        noise_floor(ax, scale * floor, label, axis="y")


def _apart(params: pd.Series) -> pd.Series:
    """Where each model stands on the size axis: at its size, neighbours pushed apart until they can be told."""
    at = params.sort_values(kind="stable")
    values = np.log(at.to_numpy())
    gap = _APART * np.log(_width(params))
    for _ in range(100):
        short = np.maximum(gap - np.diff(values), 0)
        if not (short > 1e-9).any():
            break
        values[:-1] -= short / 2
        values[1:] += short / 2
    return pd.Series(np.exp(values), index=at.index)


def _width(params: pd.Series) -> float:
    return max(params.max() / params.min(), 1.5)


def _size_axis(axes: np.ndarray, params: pd.Series, at: pd.Series, room: float) -> None:
    """Ticks at the models' sizes, as many as can be read; `room` is left before the first, as a share of the axis."""
    ticks: list[float] = []
    width = _width(params)
    for value in params.sort_values():
        if not ticks or value / ticks[-1] > width**0.17:
            ticks.append(value)
    for ax in axes.flat:
        ax.set(xscale="log", xlim=(at.min() / width**room, at.max() * width**0.15))
        ax.xaxis.set_major_locator(FixedLocator(ticks))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    for ax in axes[-1]:
        ax.set_xlabel("Parameters (logarithmic)")


@styled()
def plot_scale_differences(table: pd.DataFrame) -> Figure:
    """Larger minus smaller by family, on the same samples: IFR and IV, paired bootstrap intervals.

    Args:
        table: of `metrics.scale_differences`.

    What lies left of zero is steadier in the larger model.
    """
    rates = table[table["measure"] != "accuracy"]
    names = ["dataset", "smaller", "larger"]
    families = rates.drop_duplicates("family")[["family"]].reset_index(drop=True)
    counts = rates.groupby("family")["samples"].agg(["min", "max"]).reindex(families["family"])
    n = [f"n = {low:,} samples" if low == high else f"n = {low:,} to {high:,}" for low, high in counts.to_numpy()]
    fig, axes = family_axes(families, 2, n)
    pairs = list(rates.groupby(names, sort=False))
    colours = palette(len(pairs))
    for ax, measure in zip(axes, ("IFR", "IV"), strict=True):
        series = []
        for i, ((dataset, smaller, larger), own) in enumerate(pairs):
            own = own[own["measure"] == measure].set_index("family").reindex(families["family"]).reset_index()
            label = f"{dataset}: {larger} - {smaller}"
            series.append(Series(own, "difference", colours[i], label, MARKERS[i % len(MARKERS)]))
        forest(ax, series, zero=True)
        ax.set_xlabel(f"{measure}, larger - smaller (points)")
    legend(fig)
    return fig


@styled()
def plot_ranks(flips: pd.DataFrame, ranks: pd.DataFrame) -> Figure:
    """Which family flips most in which model, and how far the models' orders agree.

    Args:
        flips: `metrics.flip_table` by model (`metrics.by_model`). ranks: of `metrics.rank_agreement`.

    Per data set: IFR of HI's families by model, shaded by rank; Spearman's rho of each pair of models, with its p.
    """
    datasets = list(flips["dataset"].unique())
    models = list(flips["model"].unique())
    families = [family for family in HI_FAMILIES if (flips["family"] == family).any()]
    beside = len(models) <= 3
    heights = [0.9 + 0.3 * len(families), 0.9 + 0.3 * max(len(models) - 1, 1)]
    if beside:
        fig, axes = panels(len(datasets), 2, 0.2 + len(datasets) * max(heights))
    else:
        options = {"height_ratios": heights * len(datasets)}
        fig, axes = panels(2 * len(datasets), 1, 0.2 + len(datasets) * sum(heights), width=PAGE, **options)
    for (left, right), dataset in zip(axes.reshape(-1, 2), datasets, strict=True):
        own = flips[(flips["dataset"] == dataset) & flips["family"].isin(families)]
        rates = own.pivot(index="family", columns="model", values="IFR").reindex(index=families, columns=models)
        n = own.groupby("family")["instances"].max().reindex(families)
        names = [f"{spaced(family)}\nn = {count:,}" for family, count in n.items()]
        rates = rates.set_axis(names).set_axis(_wrapped(models), axis=1)
        texts = rates.map(lambda rate: f"{100 * rate:.1f}" if rate == rate else "-")
        heat_map(left, rates.rank(ascending=False), texts, cmap="cividis", vmin=1, vmax=max(len(families), 2))
        left.set_title(f"{dataset}: IFR (%)\ndark: flips most in its model")
        _agreement(right, ranks[ranks["dataset"] == dataset], models)
    return fig


def _agreement(ax: Axes, ranks: pd.DataFrame, models: list[str]) -> None:
    """Below the diagonal of models against models: each pair's rank correlation."""
    pairs = ranks[ranks["model"] != "mean"]
    if not len(pairs):
        ax.set_axis_off()
        return
    values = pd.DataFrame(np.nan, index=models[1:], columns=models[:-1])
    texts = pd.DataFrame("", index=models[1:], columns=models[:-1], dtype=object)
    for row in pairs.to_dict("records"):
        column, line = sorted((row["model"], row["other"]), key=models.index)
        values.loc[line, column] = row["rho"]
        bounds = f"\np = {row['p']:.3f}" if row["p"] == row["p"] else ""
        texts.loc[line, column] = f"{row['rho']:.2f}{bounds}" if row["rho"] == row["rho"] else "-"
    values = values.set_axis(_wrapped(models[1:])).set_axis(_wrapped(models[:-1]), axis=1)
    heat_map(ax, values, texts.to_numpy(), cmap="RdBu", vmin=-1, vmax=1)
    n, families = (pairs[name].max() for name in ("samples", "families"))
    ax.set_title(f"Spearman's rho over {families} families,\nn = {n:,} samples")


def _wrapped(models: list[str]) -> list[str]:
    return [
        fill(model.replace("_", "_ ").replace("/", "/ "), 13).replace("_ ", "_").replace("/ ", "/") for model in models
    ]
