"""Figures of V-FAT: accuracy as a radar, VRS by level, outcomes, what goes with what, categories (VF Figures 2, 4, 5).

All take `metrics.vfat_scores`; `reading` says which answers are drawn. Published: `paper.neighbours`.
"""

import itertools
from pathlib import PurePath
from textwrap import fill, shorten

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import BLUE, GREY, INK, MARKERS, RED, Series, forest, legend, palette, styled

_OUTCOMES = {"mAcc": (BLUE, "vision"), "mTDS": (RED, "bias"), "other_share": ("#C8C8C8", "other")}
_FORMATS = {"mcq": "multiple choice", "oe": "open", "all": "both formats"}


@styled()
def plot_vfat_radar(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """Accuracy by format and level, one closed line per model with its interval as a band (VF Figure 2).

    Args:
        scores: by format and level.
        published: of `paper.neighbours`: VF's models as thin grey lines.
    """
    own = _of(scores, reading)
    own = own[(own["format"] != "all") & own["level"].isin(list(_LEVELS))]
    spokes = list(own[["format", "level"]].drop_duplicates().itertuples(index=False, name=None))
    angles = np.linspace(0, 2 * np.pi, len(spokes) + 1)
    fig, ax = plt.subplots(figsize=(6.4, 5.6), subplot_kw={"projection": "polar"})
    ax.set(theta_offset=np.pi / 2, theta_direction=-1, ylim=(0, 100))
    theirs = [] if published is None else list(_accuracies(published).groupby("model", sort=False))
    label = f"published, VF Table 1: {theirs[0][0] if len(theirs) == 1 else f'{len(theirs)} models'}" if theirs else ""
    for _, part in theirs:
        value = _around(part, spokes, "value")
        if np.isfinite(value).all():
            ax.plot(angles, value, color=GREY, linewidth=0.6, alpha=0.7, zorder=1, label=label)
    for (model, part), colour in zip(own.groupby("model", sort=False), palette(own["model"].nunique()), strict=True):
        low, value, high = (_around(part, spokes, f"mAcc{end}") for end in ("_low", "", "_high"))
        ax.fill_between(angles, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        ax.plot(angles, value, "o-", color=colour, markersize=4, linewidth=1.6, label=_short(model), zorder=3)
    n = own.groupby(["format", "level"])["n"].agg(["min", "max"])
    names = [f"{_FORMATS[form]} {level}\nn = {_span(*n.loc[(form, level)])}" for form, level in spokes]
    ax.set_xticks(angles[:-1], names)
    for text, angle in zip(ax.get_xticklabels(), angles, strict=False):
        side = np.sin(angle)
        text.set_horizontalalignment("center" if abs(side) < 1e-6 else "left" if side > 0 else "right")
    ax.set_yticks([25, 50, 75, 100], ["25", "50", "75", "100 %"], color=INK, fontsize=7)
    ax.set_title(f"Accuracy (share of vision), {_how(reading)}; bands: 95 % interval", pad=26)
    legend(fig)
    return fig


@styled()
def plot_vrs(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """VRS by level, one point per model with its interval; both formats where the reading has both (VF Figure 4).

    Args:
        scores: by format and level. published: of `neighbours`: what VF's text says of its figure, hollow.
    """
    own = _widest(_of(scores, reading))
    levels, models = list(own["level"].drop_duplicates()), list(own["model"].drop_duplicates())
    fig, ax = plt.subplots(figsize=(1.8 + 1.7 * len(levels), 4.2))
    step = min(0.16, 0.6 / max(len(models), 1))
    for i, (model, colour) in enumerate(zip(models, palette(len(models)), strict=True)):
        part = own[own["model"] == model].set_index("level").reindex(levels)
        x = np.arange(len(levels)) + step * (i - (len(models) - 1) / 2)
        ax.vlines(x, part["VRS_low"], part["VRS_high"], color=colour, linewidth=1.8)
        mark = MARKERS[i % len(MARKERS)]
        ax.plot(x, part["VRS"], mark, ls="", color=colour, markersize=6, label=_short(model))
    theirs = pd.DataFrame() if published is None else published[published["measure"] == "VRS"]
    for (model, part), marker in zip(theirs.groupby("model", sort=False) if len(theirs) else (), _HOLLOW, strict=False):
        x = part["level"].map({level: i for i, level in enumerate(levels)}) + 0.34
        ax.plot(x, part["value"], marker, ls="", mfc="none", mec=INK, ms=5, label=f"published, VF: {model}")
    n = own.groupby("level")["n"].agg(["min", "max"])
    names = [f"{'all levels' if level == 'all' else level}\nn = {_span(*n.loc[level])}" for level in levels]
    ax.set_xticks(np.arange(len(levels)), names)
    ax.set(ylim=(-0.02, 1.02), xlim=(-0.5, len(levels) - 0.4), ylabel="VRS (1: sees all, is never trapped)")
    ax.set_title(f"{_FORMATS[own['format'].iloc[0]].capitalize()}, {_how(reading)}, 95 % intervals")
    ax.grid(axis="x", visible=False)
    legend(fig)
    return fig


@styled()
def plot_outcomes(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """Shares of vision, bias and other answers by model and level, with intervals of the first two (VF Figure 5).

    Args:
        scores: by format and level. published: of `neighbours`: VF's twelve models pooled, as the last bar.

    One panel per format.
    """
    own = _of(scores, reading)
    forms = [form for form in own["format"].drop_duplicates() if form != "all"]
    parts = {form: _with_pooled(own[own["format"] == form], published, form) for form in forms}
    rows = max(len(part) for part in parts.values())
    fig, axes = plt.subplots(1, len(forms), figsize=(0.6 + 4.4 * len(forms), 1.5 + 0.36 * rows), squeeze=False)
    for ax, (form, part) in zip(axes[0], parts.items(), strict=True):
        y, left = np.arange(len(part)), np.zeros(len(part))
        for name, (colour, label) in _OUTCOMES.items():
            share = 100 * part[name].to_numpy(float)
            ax.barh(y, share, left=left, height=0.68, color=colour, label=label)
            left += share
        start = 100 * part["mAcc"].to_numpy(float)
        for name, offset, dy in (("mAcc", 0, -0.14), ("mTDS", start, 0.14)):
            low, value, high = (offset + 100 * part[f"{name}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
            ax.hlines(y + dy, low, np.minimum(high, 100), color=INK, linewidth=1.3)
            value[~np.isfinite(low)] = np.nan
            ax.plot(value, y + dy, "|", color=INK, markersize=5, label="95 % intervals: vision above, bias below")
        ax.set_yticks(y, part["name"])
        ax.set(ylim=(rows - 0.4, -0.6), xlim=(0, 100.5), xlabel="Share of answers (%)")
        ax.set_title(f"{_FORMATS[form].capitalize()}, {_how(reading)}")
        ax.grid(axis="y", visible=False)
    legend(fig)
    return fig


@styled()
def plot_outcome_pairs(
    scores: pd.DataFrame, correlations: pd.DataFrame | None = None, reading: str = "generation"
) -> Figure:
    """Shares of outcomes against each other, a point per model, format and level, and their correlation (VF Figure 5).

    Args:
        scores: by format and level. correlations: of `metrics.vfat_correlations`.
    """
    own = _of(scores, reading)
    own = own[(own["format"] != "all") & (own["level"] != "all")]
    fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.7))
    for ax, (first, second) in zip(axes, itertools.combinations(_OUTCOMES, 2), strict=True):
        for (model, part), colour in zip(
            own.groupby("model", sort=False), palette(own["model"].nunique()), strict=True
        ):
            for form, fill_ in (("mcq", colour), ("oe", "none")):
                for level, marker in _LEVELS.items():
                    here = part[(part["format"] == form) & (part["level"] == level)]
                    ax.plot(100 * here[first], 100 * here[second], marker, mfc=fill_, mec=colour, ms=6, ls="")
                if (part["format"] == form).any():
                    label = f"{_short(model)}, {_FORMATS[form]}"
                    ax.plot([], [], "o", mfc=fill_, mec=colour, ms=6, ls="", label=label)
        for level, marker in _LEVELS.items():
            ax.plot([], [], marker, color=GREY, ms=6, ls="", label=level)
        names = [_OUTCOMES[name][1] for name in (first, second)]
        ax.set(xlim=(-4, 108), ylim=(-4, 108), xlabel=f"{names[0]} (%)", ylabel=f"{names[1]} (%)")
        ax.set_title(_correlated(correlations, *names), fontsize=8)
    title = f"A point: one model, format and level (n = {_span(own['n'].min(), own['n'].max())}), {_how(reading)}"
    fig.suptitle(title, x=0.01, ha="left", fontsize=9)
    legend(fig)
    return fig


@styled()
def plot_vfat_categories(scores: pd.DataFrame, measure: str = "VRS", reading: str = "generation") -> Figure:
    """A measure by category, one point per model with its interval.

    Args:
        scores: by category. measure: mAcc, mTDS, R or VRS.
    """
    own = _of(scores, reading)
    categories = list(own["category"].drop_duplicates())
    models = list(own["model"].drop_duplicates())
    fig, ax = plt.subplots(figsize=(6.6, 1.5 + 0.5 * len(categories)))
    series = []
    for model, colour, mark in zip(models, palette(len(models)), itertools.cycle(MARKERS), strict=False):
        part = own[own["model"] == model].set_index("category").reindex(categories)
        series.append(Series(part, measure, colour, _short(model), mark))
    forest(ax, series, scale=1)
    n = own.groupby("category")["n"].agg(["min", "max"])
    ax.set_yticks(
        np.arange(len(categories)),
        [f"{name.replace('all', 'all categories')}\nn = {_span(*n.loc[name])}" for name in categories],
    )
    ax.set(ylim=(len(categories) - 0.5, -0.5), xlim=(-0.02, 1.02), xlabel=f"{measure}, 95 % intervals")
    ax.set_title(f"All levels and formats, {_how(reading)}")
    ax.grid(axis="y", visible=False)
    legend(fig)
    return fig


@styled()
def plot_vfat_gallery(items: list[dict], width: int = 34) -> Figure:
    """Answers by level and outcome, each with its image, what was asked and asserted, and what was said.

    Args:
        items: dicts of `image` (PIL), `question`, `hint`, `answer`, `truth`, `trap`, `level`, `format`, `outcome`, as
            `vfkit.study.gallery.answered` gives them. width: of a line of text, in characters.

    Raises:
        ValueError: no items, or an item that lacks one of the above.
    """
    if not items:
        raise ValueError("a gallery needs at least one item")
    for item in items:
        if missing := [name for name in _ITEM if name not in item]:
            raise ValueError(f"a gallery item lacks {', '.join(missing)}")
    levels = list(dict.fromkeys(item["level"] for item in items))
    outcomes = [outcome for outcome in _OUTCOME_COLOURS if any(item["outcome"] == outcome for item in items)]
    size = (3.0 * len(outcomes), 3.6 * len(levels))
    fig, axes = plt.subplots(len(levels), len(outcomes), figsize=size, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for item in items:
        ax = axes[levels.index(item["level"]), outcomes.index(item["outcome"])]
        ax.imshow(item["image"])
        asked = " ".join(filter(None, [item["hint"], item["question"]]))
        title = f"{item['level']}, {_FORMATS[item['format']]}: {item['outcome']}"
        asked = fill(shorten(asked, 3 * width, placeholder=" ..."), width)
        ax.set_title(f"{title}\n{asked}", fontsize=7, parse_math=False)
        said = f"said: {item['answer']}\n(true: {item['truth']}; trap: {item['trap']})"
        said = "\n".join(fill(shorten(line, 2 * width, placeholder=" ..."), width) for line in said.split("\n"))
        colour = _OUTCOME_COLOURS[item["outcome"]]
        style = dict(ha="center", va="top", fontsize=7, color=colour, parse_math=False)
        ax.text(0.5, -0.03, said, transform=ax.transAxes, **style)
    return fig


_ITEM = ("image", "question", "hint", "answer", "truth", "trap", "level", "format", "outcome")
_OUTCOME_COLOURS = {"vision": BLUE, "bias": RED, "other": GREY}
_HOLLOW = "Dsv^<>ph*Xd8"
_LEVELS = {"L1": "o", "L2": "^", "L3": "s"}


def _of(scores: pd.DataFrame, reading: str) -> pd.DataFrame:
    """The rows of one reading, of one rule, each with a `model`."""
    own = scores[scores["reading"] == reading]
    if own.empty:
        raise ValueError(f"no answers were read by {reading!r}; there are: {', '.join(scores['reading'].unique())}")
    own = own[own["rule"] == own["rule"].iloc[0]]
    return own if "model" in own else own.assign(model="")


def _widest(own: pd.DataFrame) -> pd.DataFrame:
    """Formats pooled, where there is more than one."""
    return own[own["format"] == "all"] if (own["format"] == "all").any() else own


def _short(model: str) -> str:
    """A folder's last name; a name in words is one."""
    return PurePath(model).name if model.startswith(("/", ".")) else model


def _accuracies(published: pd.DataFrame) -> pd.DataFrame:
    return published[(published["measure"] == "mAcc") & published["n"].notna()]


def _around(part: pd.DataFrame, spokes: list[tuple], name: str) -> np.ndarray:
    """Values in per cent, spoke by spoke, closed."""
    value = 100 * part.set_index(["format", "level"])[name].reindex(spokes).to_numpy(float)
    return np.append(value, value[:1])


def _with_pooled(part: pd.DataFrame, published: pd.DataFrame | None, form: str) -> pd.DataFrame:
    """Rows with the name they are drawn under, VF's pooled shares last."""
    level = part["level"].replace("all", "all levels")
    part = part.assign(
        name=[f"{_short(m)} {lv}  n = {n:,}" for m, lv, n in zip(part["model"], level, part["n"], strict=True)]
    )
    if published is None:
        return part
    pooled = published[published["model"].str.contains("pooled") & (published["format"] == form)]
    if pooled.empty:
        return part
    row = pooled.set_index("measure")["value"].to_dict() | {"name": "published, VF Figure 5:\n12 models pooled"}
    return pd.concat([part, pd.DataFrame([row])], ignore_index=True)


def _correlated(correlations: pd.DataFrame | None, first: str, second: str) -> str:
    if correlations is None:
        return ""
    row = correlations.set_index(["first", "second"]).loc[(first, second)]
    if row["r"] != row["r"]:
        return fill(f"{int(row['n'])} models: too few, or too alike, for a correlation", 38)
    interval = f" [{row['r_low']:.2f}, {row['r_high']:.2f}]" if row["r_low"] == row["r_low"] else ""
    return f"r = {row['r']:.2f}{interval} over {int(row['n'])} models"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _how(reading: str) -> str:
    return {"generation": "generated answers", "likelihood": "by log-likelihood"}.get(reading, "truth against trap")
