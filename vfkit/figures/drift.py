"""Figures of moving states: drift against its controls, per cent of control by probe, and where the states lie."""

from textwrap import fill

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    PAGE,
    PINK,
    RED,
    SKY,
    SMALL,
    Series,
    family_axes,
    forest,
    legend,
    log_ticks,
    noise_floor,
    panels,
    spaced,
    styled,
)

_PROBES = {"ctx_open": BLUE, "ctx_mcq": SKY, "ans_open": GREEN, "ans_mcq": ORANGE, "ans_mcq_free": PINK}
_SHAPES = dict(zip(_PROBES, MARKERS, strict=False))
_SPREAD = 0.38  # of a row: where its probes stand
_CONTROLS = {"same_question": (ORANGE, "-"), "same_category": (GREEN, "--"), "other_sample": (INK, ":")}
_PANELS = {"all": "all answers", "kept": "answer kept", "flipped": "answer flipped"}
_NAMES = {"cos": "Drift: 1 - cos to the base state", "l2": "Drift: L2 distance to the base state"}


@styled()
def plot_drift_histograms(samples: pd.DataFrame, distance: str = "cos", threshold: float | None = None) -> Figure:
    """How far states move while the answer stays, against both controls (HI Figure 1, which has no such condition).

    Args:
        samples: of `metrics.sample_drift`. distance: the one it was made of, for the axis.
        threshold: the `threshold` of `metrics.drift_table`, drawn as a line.

    One panel per family: histograms over samples, on a logarithmic axis, each scaled to its own peak (1). What moves
    less than the axis shows (the noise floor) stands at its left edge, its largest value beside it.
    """
    families = [name for name in samples["family"].unique() if name not in _CONTROLS]
    low, high = _range(samples["drift"], samples["family"])
    bins = np.geomspace(low, 1.2 * high, 61)
    fig, axes = panels(max(len(families), 1), 1, 0.6 + 0.5 * max(len(families), 1), width=PAGE, sharex=True)
    axes[0, 0].set_xscale("log")  # shared by all, and before seaborn draws: its bins are then powers of ten
    for ax, family in zip(axes[:, 0], families, strict=False):
        own = samples[samples["family"] == family]
        kept, flipped = (own.loc[own["answer"] == answer, "drift"] for answer in ("kept", "flipped"))
        _steps(ax, bins, kept, BLUE, "drift, answer kept", fill=True)
        for name, (colour, dash) in _CONTROLS.items():
            label = f"control: {name.replace('_', ' ')}"
            _steps(ax, bins, samples.loc[samples["family"] == name, "drift"], colour, label, dash)
        _steps(ax, bins, flipped, RED, "drift, answer flipped", hatch="/////")
        if own["drift"].max() < bins[1]:
            text = f"at most {own['drift'].max():.1g}"
            ax.text(0.06, 0.5, text, transform=ax.transAxes, va="center", fontsize=SMALL)
        if threshold is not None and np.isfinite(threshold):
            ax.axvline(threshold, color=INK, linestyle="-.", linewidth=1, label="5th percentile, same question")
        name, n = fill(spaced(family), 24), f"n = {len(kept):,} kept,\n{len(flipped):,} flipped"
        ax.set_ylabel(f"{name}\n{n}", rotation=0, ha="right", va="center", fontsize=SMALL)
        ax.set(xlim=(bins[0], bins[-1]), ylim=(0, 1.12), yticks=[])
        ax.spines["left"].set_visible(False)
    axes[-1, 0].set_xlabel(f"{_NAMES[distance]}, mean per sample\n(height: samples, as a share of the fullest bin)")
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
    axis shows is a triangle at its left edge. The counts are of instances whose scored option is kept or flipped, as in
    the other figures; a probe of the open prompt has its own, by the generated text, in the table.

    Raises:
        ValueError: several taps or distances in the table.
    """
    if len(table[["tap", "distance"]].drop_duplicates()) > 1:
        raise ValueError("the drift of one tap and one distance is drawn at a time; filter the table")
    scale = 100 / table[control].where(table[control] > 0)
    table = table.assign(**{f"percent{end}": scale * table[f"drift{end}"] for end in ("", "_low", "_high")})
    if control == "other_sample" and "percent_published" in table:
        there = table["percent_published"].notna()
        table["published_source"] = pd.Series(_sources(table), table.index).where(there, "")
    else:
        table = table.drop(columns=["percent_published"], errors="ignore")
    families = table["family"].drop_duplicates().reset_index(drop=True)
    fig, axes = family_axes(families.to_frame(), 3, _counts(table, families))
    left, right = _range(table["percent"], table["family"])
    right = np.nanmax([1.5 * right, *table["percent_high"]])  # intervals are shown to their end
    floor = table.loc[table["family"] == "identity", "percent"].max()
    for ax, answer in zip(axes, _PANELS, strict=True):
        own, series, edges = table[table["answer"] == answer], [], []
        for probe in (probe for probe in _PROBES if (table["probe"] == probe).any()):
            part = own[own["probe"] == probe].set_index("family").reindex(families).reset_index()
            edges.append(part["percent"] <= left)
            ends = ["percent_low", "percent_high"]
            part = part.assign(**part[ends].clip(lower=left), percent=part["percent"].where(part["percent"] > left))
            if answer != "all":  # the papers give no kept and flipped
                part = part.drop(columns=["percent_published"], errors="ignore")
            series.append(Series(part, "percent", _PROBES[probe], probe, _SHAPES[probe]))
        forest(ax, series, 1, _SPREAD)
        offsets = np.linspace(-_SPREAD, _SPREAD, 2 * len(series) + 1)[1::2]
        for one, edge, offset in zip(series, edges, offsets, strict=True):
            y = np.arange(len(families)) + offset
            ax.plot(np.where(edge, left, np.nan), y, "<", color=one.colour, ms=4, ls="", clip_on=False, zorder=3)
        if own["percent"].isna().all():
            ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", color=GREY)
        if np.isfinite(floor):
            noise_floor(ax, max(floor, left), f"noise floor (identity): {floor:.1g} %")
        log_ticks(ax, left, 1.3 * right)
        ax.set(title=_PANELS[answer], xlabel=f"Drift, % of\n{control.replace('_', '-')} control")
    legend(fig)
    return fig


def _counts(table: pd.DataFrame, families: pd.Series) -> list[str]:
    """Instances by family, kept and flipped by the scored option, or by what there is."""
    scored = table[table["kept_by"] == "option"] if "kept_by" in table else table.iloc[:0]
    by = (scored if len(scored) else table).drop_duplicates(["family", "answer"])
    n = by.pivot(index="family", columns="answer", values="instances").reindex(families)
    rows = n.reindex(columns=list(_PANELS)).fillna(0).astype(int)
    return [f"n = {row.all:,}: {row.kept:,} kept,\n{row.flipped:,} flipped" for row in rows.itertuples()]


@styled()
def plot_embedding(table: pd.DataFrame, columns: int = 4) -> Figure:
    """Base and perturbed states on their first two principal components, one panel per family, a line per move.

    Args:
        table: of `metrics.embedding_table`. columns: panels side by side.
    """
    base = table[table["family"] == "base"].set_index("sample_id")
    families = [family for family in table["family"].unique() if family != "base"]
    columns = max(1, min(columns, len(families)))
    rows = max(1, -(-len(families) // columns))
    fig, axes = panels(rows, columns, 0.3 + 1.75 * rows, sharex=True, sharey=True)
    for ax in axes.flat[len(families) :]:
        ax.remove()
    for ax, family in zip(axes.flat, families, strict=False):
        own = table[table["family"] == family]
        start = base.reindex(own["sample_id"])
        ax.plot([start["x"], own["x"]], [start["y"], own["y"]], color=GREY, linewidth=0.4, zorder=1)
        ax.plot(base["x"], base["y"], ".", color=INK, markersize=2.5, label="base", zorder=2)
        for answer, colour, marker in (("kept", BLUE, "s"), ("flipped", RED, "X")):
            part = own[own["answer"] == answer]
            label = f"perturbed, answer {answer}"
            inside = "none" if answer == "kept" else colour
            style = dict(ms=3.5, mew=0.7, mfc=inside, mec=colour, ls="", alpha=0.8, zorder=3)
            ax.plot(part["x"], part["y"], marker, **style, label=label)
        flips = (own["answer"] == "flipped").sum()
        ax.set_title(f"{fill(spaced(family), 22)}\nn = {len(own):,}, {flips:,} flipped", fontsize=SMALL)
    x, y = (100 * table[f"{name}_share"].mean() for name in ("x", "y"))
    for ax in axes[-1]:
        ax.set_xlabel(f"PC 1 ({x:.0f} % of variance)", fontsize=SMALL)
    for ax in axes[:, 0]:
        ax.set_ylabel(f"PC 2 ({y:.0f} %)", fontsize=SMALL)
    legend(fig)
    return fig


def _range(values: pd.Series, families: pd.Series) -> tuple[float, float]:
    """A logarithmic axis: from a third of the smallest move that a family but the noise floor makes, to the largest."""
    moved = values[(families != "identity") & (values > 0)]
    moved = values[values > 0] if moved.empty else moved
    return (moved.min() / 3, moved.max()) if len(moved) else (0.1, 100.0)


def _steps(
    ax: Axes,
    bins: np.ndarray,
    values: pd.Series,
    colour: str,
    label: str,
    dash="-",
    fill: bool = False,
    hatch: str = "",
) -> None:
    """Draw a histogram scaled to its peak: filled, hatched, or its outline."""
    values = values[values.notna()].clip(bins[0], bins[-1])
    if not len(values):
        return
    peak = np.histogram(values, bins)[0].max()
    data = pd.DataFrame({"drift": values, "weight": 1 / peak})
    style: dict = dict(alpha=0.45, linewidth=0) if fill else dict(linewidth=1.1, linestyle=dash)
    if hatch:
        fill, style = True, dict(hatch=hatch, facecolor="none", edgecolor=colour, linewidth=1.1)
    names = {"x": "drift", "weights": "weight"}
    sns.histplot(
        data, **names, bins=list(np.log10(bins)), element="step", fill=fill, color=colour, label=label, ax=ax, **style
    )


def _sources(table: pd.DataFrame) -> str:
    """Where the published per cent come from, in one line: what several sources share is said once."""
    sources = table.loc[table["percent_published"].notna(), "published_source"].unique()
    parts = [source.split(", ", 1) for source in sources]
    return ", ".join(" / ".join(dict.fromkeys(part)) for part in zip(*parts, strict=True))
