"""Figures of moving states: drift against its controls, per cent of control by probe, and where the states lie."""

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from vfkit.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    PINK,
    RED,
    SKY,
    family_axes,
    legend,
    noise_floor,
    styled,
)

_PROBES = {"ctx_open": BLUE, "ctx_mcq": SKY, "ans_open": GREEN, "ans_mcq": ORANGE, "ans_mcq_free": PINK}
_SHAPES = dict(zip(_PROBES, MARKERS, strict=False))
_CONTROLS = {"same_question": ORANGE, "same_category": SKY, "other_sample": GREY}
_PANELS = {"all": "all answers", "kept": "answer kept", "flipped": "answer flipped"}
_NAMES = {"cos": "cosine distance to the base state, 1 - cos", "l2": "L2 distance to the base state"}


@styled()
def plot_drift_histograms(samples: pd.DataFrame, distance: str = "cos", threshold: float | None = None) -> Figure:
    """How far states move while the answer stays, against both controls (HI Figure 1, which has no such condition).

    Args:
        samples: of `metrics.sample_drift`. distance: the one it was made of, for the axis.
        threshold: the `threshold` of `metrics.drift_table`, drawn as a line.

    One panel per family: histograms over samples, on a logarithmic axis, each scaled to its own peak. What moves less
    than the axis shows (the noise floor) stands at its left edge, its largest value beside it.
    """
    families = [name for name in samples["family"].unique() if name not in _CONTROLS]
    low, high = _range(samples["drift"], samples["family"])
    bins = np.geomspace(low, 1.2 * high, 61)
    height = 1.6 + 0.62 * max(len(families), 1)
    fig, axes = plt.subplots(max(len(families), 1), 1, figsize=(6.6, height), sharex=True, squeeze=False)
    axes[0, 0].set_xscale("log")  # shared by all, and before seaborn draws: its bins are then powers of ten
    for ax, family in zip(axes[:, 0], families, strict=False):
        own = samples[samples["family"] == family]
        kept, flipped = (own.loc[own["answer"] == answer, "drift"] for answer in ("kept", "flipped"))
        for name, colour in _CONTROLS.items():
            label = f"control: {name.replace('_', ' ')}"
            _steps(ax, bins, samples.loc[samples["family"] == name, "drift"], colour, label, fill=True)
        _steps(ax, bins, kept, BLUE, "drift, answer kept", fill=True)
        _steps(ax, bins, flipped, RED, "drift, answer flipped")
        if own["drift"].max() < bins[1]:
            ax.text(0.03, 0.5, f"at most {own['drift'].max():.1g}", transform=ax.transAxes, va="center", fontsize=8)
        if threshold is not None and np.isfinite(threshold):
            ax.axvline(threshold, color=INK, linestyle="--", linewidth=1, label="5th percentile, same question")
        name, n = fill(family.replace("_", " "), 24), f"n = {len(kept):,} kept,\n{len(flipped):,} flipped"
        ax.set_ylabel(f"{name}\n{n}", rotation=0, ha="right", va="center", fontsize=8)
        ax.set(xlim=(bins[0], bins[-1]), ylim=(0, 1.12), yticks=[])
        ax.spines["left"].set_visible(False)
    axes[-1, 0].set_xlabel(f"Drift: mean {_NAMES[distance]}, per sample")
    legend(fig)
    return fig


@styled()
def plot_drift(table: pd.DataFrame, control: str = "other_sample") -> Figure:
    """Drift in per cent of a control, by family and probe: all answers, kept, flipped.

    Args:
        table: of `metrics.drift_summary` or `drift_table`, of one tap and distance; after `paper.beside` with the
            published values, which stand beside `other_sample`.
        control: `other_sample` or `same_question`.

    Whiskers are the interval of the drift, divided by the mean of the control. The dashed line is the noise floor, the
    largest value of `identity`; where it lies left of the axis its value is in the legend, and what is smaller than the
    axis shows is a triangle at its left edge.

    Raises:
        ValueError: several taps or distances in the table.
    """
    if len(table[["tap", "distance"]].drop_duplicates()) > 1:
        raise ValueError("the drift of one tap and one distance is drawn at a time; filter the table")
    scale = 100 / table[control].where(table[control] > 0)
    table = table.assign(**{f"percent{end}": scale * table[f"drift{end}"] for end in ("", "_low", "_high")})
    probes = [probe for probe in _PROBES if (table["probe"] == probe).any()]
    of = {answer: table[table["answer"] == answer] for answer in _PANELS}
    first = {answer: part.drop_duplicates("family") for answer, part in of.items()}
    counts = zip(*(part["samples"] for part in first.values()), strict=True)
    n = [f"n = {every:,}; {kept:,} kept,\n{flipped:,} flipped" for every, kept, flipped in counts]
    fig, axes = family_axes(first["all"], 3, n)
    fig.set_size_inches(10.4, 1.7 + 0.62 * max(len(n), 1))
    y = pd.Series(np.arange(len(n)), index=first["all"]["family"])
    left, right = _range(table["percent"], table["family"])
    floor = table.loc[table["family"] == "identity", "percent"].max()
    source = _sources(table) if control == "other_sample" and "percent_published" in table else ""
    for ax, answer in zip(axes, _PANELS, strict=True):
        for i, probe in enumerate(probes):
            own = of[answer][of[answer]["probe"] == probe]
            at = own["family"].map(y).to_numpy() + 0.15 * (i - (len(probes) - 1) / 2)
            low, value, high = (own[f"percent{end}"].clip(lower=left) for end in ("_low", "", "_high"))
            ax.hlines(at, low, high, color=_PROBES[probe], linewidth=1.4)
            mark = _SHAPES[probe]
            ax.plot(value.where(value > left), at, mark, color=_PROBES[probe], ms=4, ls="", label=probe, zorder=3)
            ax.plot(value.where(value == left), at, "<", color=_PROBES[probe], ms=4, clip_on=False, zorder=3)
            if source and answer == "all":
                label = f"published: {source}"
                ax.plot(own["percent_published"], at, "D", mfc="none", mec=INK, mew=0.8, ms=4.5, label=label)
        if of[answer]["percent"].isna().all():
            ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", color=GREY)
        if np.isfinite(floor):
            label = f"noise floor (identity): {floor:.1g} %"
            noise_floor(ax, max(floor, left), label)
        ax.set(xscale="log", xlim=(left, 2 * right), title=_PANELS[answer])
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlabel(f"Drift, % of {control.replace('_', '-')} control")
    legend(fig)
    return fig


@styled()
def plot_embedding(table: pd.DataFrame, columns: int = 5) -> Figure:
    """Base and perturbed states on their first two principal components, one panel per family, a line per move.

    Args:
        table: of `metrics.embedding_table`. columns: panels side by side.
    """
    base = table[table["family"] == "base"].set_index("sample_id")
    families = [family for family in table["family"].unique() if family != "base"]
    columns = max(1, min(columns, len(families)))
    rows = max(1, -(-len(families) // columns))
    size = (0.7 + 2.0 * columns, 1.1 + 2.0 * rows)
    fig, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(families) :]:
        ax.remove()
    for ax, family in zip(axes.flat, families, strict=False):
        own = table[table["family"] == family]
        start = base.reindex(own["sample_id"])
        ax.plot([start["x"], own["x"]], [start["y"], own["y"]], color=GREY, linewidth=0.4, zorder=1)
        ax.plot(base["x"], base["y"], "o", color=INK, markersize=2.2, label="base", zorder=2)
        for answer, colour, marker in (("kept", BLUE, "o"), ("flipped", RED, "X")):
            part = own[own["answer"] == answer]
            label = f"perturbed, answer {answer}"
            ax.plot(part["x"], part["y"], marker, color=colour, ms=3.2, mew=0, alpha=0.8, label=label, zorder=3)
        flips = (own["answer"] == "flipped").sum()
        ax.set_title(f"{family.replace('_', ' ')}\nn = {len(own):,}, {flips:,} flipped", fontsize=8)
        ax.tick_params(labelsize=7)
    x, y = (100 * table[f"{name}_share"].mean() for name in ("x", "y"))
    for ax in axes[-1]:
        ax.set_xlabel(f"PC 1 ({x:.0f} % of variance)", fontsize=8)
    for ax in axes[:, 0]:
        ax.set_ylabel(f"PC 2 ({y:.0f} %)", fontsize=8)
    legend(fig)
    return fig


def _range(values: pd.Series, families: pd.Series) -> tuple[float, float]:
    """A logarithmic axis: from a third of the smallest move that a family but the noise floor makes, to the largest."""
    moved = values[(families != "identity") & (values > 0)]
    moved = values[values > 0] if moved.empty else moved
    return (moved.min() / 3, moved.max()) if len(moved) else (0.1, 100.0)


def _steps(ax: Axes, bins: np.ndarray, values: pd.Series, colour: str, label: str, fill: bool = False) -> None:
    """A histogram scaled to its peak."""
    values = values[values.notna()].clip(bins[0], bins[-1])
    if not len(values):
        return
    peak = np.histogram(values, bins)[0].max()
    style = {"alpha": 0.45, "linewidth": 0} if fill else {"linewidth": 1.2}
    data = pd.DataFrame({"drift": values, "weight": 1 / peak})
    names = {"x": "drift", "weights": "weight"}
    sns.histplot(
        data, **names, bins=list(np.log10(bins)), element="step", fill=fill, color=colour, label=label, ax=ax, **style
    )


def _sources(table: pd.DataFrame) -> str:
    """Where the published per cent come from, in one line: what several sources share is said once."""
    sources = table.loc[table["percent_published"].notna(), "published_source"].unique()
    parts = [source.split(", ", 1) for source in sources]
    return ", ".join(" / ".join(dict.fromkeys(part)) for part in zip(*parts, strict=True))
