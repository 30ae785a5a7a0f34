"""Figures of V-FAT: accuracy as a radar, VRS by level, outcomes, what goes with what, categories (VF Figures 2, 4, 5).

All take `metrics.vfat_scores`; `reading` says which answers are drawn. Published: `paper.neighbours`.
"""

import itertools
from pathlib import PurePath
from textwrap import fill, shorten

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from vfkit.figures.style import (
    BLUE,
    DASHES,
    GREY,
    INK,
    MARKERS,
    PAGE,
    RED,
    SMALL,
    Series,
    explain_bars,
    forest,
    hollow,
    legend,
    letters,
    palette,
    panels,
    styled,
)

_OUTCOMES = {"mAcc": (BLUE, "vision", "o"), "mTDS": (RED, "bias", "D"), "other_share": (GREY, "other", "s")}
_FORMATS = {"mcq": "multiple choice", "oe": "open", "all": "both formats"}


@styled()
def plot_vfat_radar(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """Accuracy by format and level, one closed line per model, with intervals (VF Figure 2).

    Args:
        scores: by format and level.
        published: of `paper.neighbours`: VF's models as thin grey lines.
    """
    own = _of(scores, reading)
    own = own[(own["format"] != "all") & own["level"].isin(list(_LEVELS))]
    spokes = list(own[["format", "level"]].drop_duplicates().itertuples(index=False, name=None))
    angles = np.linspace(0, 2 * np.pi, len(spokes) + 1)
    fig, ((ax,),) = panels(1, 1, 4.7, width=PAGE, subplot_kw={"projection": "polar"})
    ax.set(theta_offset=np.pi / 2, theta_direction=-1, ylim=(0, 105))
    theirs = [] if published is None else list(_accuracies(published).groupby("model", sort=False))
    label = f"published, VF Table 1: {theirs[0][0] if len(theirs) == 1 else f'{len(theirs)} models'}" if theirs else ""
    for _, part in theirs:
        value = _around(part, spokes, "value")
        if np.isfinite(value).all():
            ax.plot(angles, value, color=GREY, linewidth=0.6, alpha=0.7, zorder=1, label=label)
    for i, (model, colour, mark) in enumerate(_models(own)):
        part = own[own["model"] == model]
        low, value, high = (_around(part, spokes, f"mAcc{end}") for end in ("_low", "", "_high"))
        ax.vlines((angles + 0.035 * i)[:-1], low[:-1], high[:-1], color=colour, linewidth=1.2, zorder=2)
        style = dict(marker=mark, linestyle=DASHES[i % len(DASHES)], color=colour)
        ax.plot(angles + 0.035 * i, value, **style, markersize=4, linewidth=1.4, label=_short(model), zorder=3)
    explain_bars(ax, bool(own["mAcc_low"].isna().any()))
    n = own.groupby(["format", "level"])["n"].agg(["min", "max"])
    names = [f"{_FORMATS[form]} {level}\nn = {_span(*n.loc[(form, level)])}" for form, level in spokes]
    ax.set_xticks(angles[:-1], names)
    for text, angle in zip(ax.get_xticklabels(), angles, strict=False):
        side = np.sin(angle)
        text.set_horizontalalignment("center" if abs(side) < 1e-6 else "left" if side > 0 else "right")
    ax.set_yticks([25, 50, 75, 100], ["25", "50", "75", "100 %"], color=INK, fontsize=SMALL)
    ax.set_rlabel_position(180 / max(len(spokes), 1))  # between two spokes
    ax.set_title(f"Accuracy (share of vision), {_how(reading)}", pad=14)
    legend(fig)
    return fig


@styled()
def plot_vrs(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """VRS by level, one point per model with its interval; both formats where the reading has both (VF Figure 4).

    Args:
        scores: by format and level. published: of `neighbours`: what VF's text says of its figure, hollow.
    """
    own = _widest(_of(scores, reading))
    fig, ax, levels = _rows(own, "level", "VRS")
    theirs = pd.DataFrame() if published is None else published[published["measure"] == "VRS"]
    for model, part in theirs.groupby("model", sort=False) if len(theirs) else ():
        y = part["level"].map({level: i for i, level in enumerate(levels)}) + 0.4
        ax.plot(part["value"], y, **hollow(ax, f"published, VF: {model}"))
    ax.set_xlabel("VRS (1: sees all, is never trapped)")
    ax.set_title(f"{_FORMATS[own['format'].iloc[0]].capitalize()}, {_how(reading)}")
    legend(fig)
    return fig


@styled()
def plot_outcomes(scores: pd.DataFrame, published: pd.DataFrame | None = None, reading: str = "generation") -> Figure:
    """Shares of vision, bias and other answers by model and level, each with its interval (VF Figure 5).

    Args:
        scores: by format and level. published: of `neighbours`: VF's twelve models pooled, hollow, in a row of its own.

    One panel per format. The three shares of a row add to 100 %.
    """
    own = _of(scores, reading)
    forms = [form for form in own["format"].drop_duplicates() if form != "all"]
    parts = {form: _with_pooled(own[own["format"] == form], published, form) for form in forms}
    names = next(iter(parts.values()))["name"]
    fig, axes = panels(1, len(forms), 0.7 + 0.34 * max(len(part) for part in parts.values()), width=PAGE, sharey=True)
    for ax, (form, part) in zip(axes[0], parts.items(), strict=True):
        forest(ax, [Series(part, name, colour, label, mark) for name, (colour, label, mark) in _OUTCOMES.items()])
        ax.set_yticks(np.arange(len(names)), names)
        ax.set(ylim=(len(names) - 0.5, -0.5), xlim=(-3, 103), xlabel="Share of answers (%)")
        ax.set_title(f"{_FORMATS[form].capitalize()}, {_how(reading)}")
        ax.grid(axis="y", visible=False)
        for y in np.flatnonzero((part["level"] == "all").to_numpy())[:-1]:
            ax.axhline(y + 0.5, color="#C8C8C8", linewidth=0.6)  # between models
    legend(fig)
    return fig


@styled()
def plot_outcome_pairs(
    scores: pd.DataFrame, correlations: pd.DataFrame | None = None, reading: str = "generation"
) -> Figure:
    """Shares of outcomes against each other, a point per model, format and level, and their correlation (VF Figure 5).

    Args:
        scores: by format and level. correlations: of `metrics.vfat_correlations`.

    Shapes are models; hollow ones are open questions; the larger, the higher the level.
    """
    own = _of(scores, reading)
    own = own[(own["format"] != "all") & own["level"].isin(list(_LEVELS))]
    fig, (axes,) = panels(1, 3, 2.7)
    forms = [form for form in ("mcq", "oe") if (own["format"] == form).any()]
    for ax, (first, second) in zip(axes, itertools.combinations(_OUTCOMES, 2), strict=True):
        for model, colour, mark in _models(own):
            for row in own[own["model"] == model].to_dict("records"):
                inside = "none" if row["format"] == "oe" else colour
                style = dict(mfc=inside, mec=colour, ms=_LEVELS[row["level"]], alpha=0.9)
                ax.plot(100 * row[first], 100 * row[second], mark, **style)
            ax.plot([], [], mark, color=colour, ms=5, label=_short(model))
        names = [_OUTCOMES[name][1] for name in (first, second)]
        ax.set(xlim=(-6, 108), ylim=(-6, 108), xlabel=f"{names[0]} (%)", ylabel=f"{names[1]} (%)")
        ax.set_title(_correlated(correlations, *names), fontsize=SMALL)
    for form in forms:
        inside = "none" if form == "oe" else GREY
        axes[0].add_patch(Rectangle((0, 0), 0, 0, facecolor=inside, edgecolor=GREY, label=_FORMATS[form]))
    for level, size in _LEVELS.items():
        axes[0].add_line(Line2D([], [], marker="o", ls="", mfc="none", mec=GREY, ms=size, label=level))
    title = f"A point: one model, format and level (n = {_span(own['n'].min(), own['n'].max())}), {_how(reading)}"
    fig.suptitle(title, x=0.01, ha="left")
    legend(fig)
    return fig


@styled()
def plot_vfat_categories(scores: pd.DataFrame, measure: str = "VRS", reading: str = "generation") -> Figure:
    """A measure by category, one point per model with its interval.

    Args:
        scores: by category. measure: mAcc, mTDS, R or VRS.
    """
    fig, ax, _ = _rows(_of(scores, reading), "category", measure)
    ax.set(xlabel=measure, title=f"All levels and formats, {_how(reading)}")
    legend(fig)
    return fig


@styled()
def plot_vfat_gallery(items: list[dict]) -> Figure:
    """Answers by level and outcome, each with its image, what was asked and asserted, and what was said.

    Args:
        items: dicts of `image` (PIL), `question`, `hint`, `answer`, `truth`, `trap`, `level`, `format`, `outcome`, as
            `vfkit.study.gallery.answered` gives them.

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
    fig, axes = panels(len(levels), len(outcomes), 3.0 * len(levels))
    width = letters(fig.get_figwidth() / len(outcomes)) - 4
    for ax in axes.flat:
        ax.set_axis_off()
    for item in items:
        ax = axes[levels.index(item["level"]), outcomes.index(item["outcome"])]
        ax.imshow(item["image"])
        asked = " ".join(filter(None, [item["hint"], item["question"]]))
        title = f"{item['level']}, {_FORMATS[item['format']]}: {item['outcome']}"
        asked = fill(shorten(asked, 3 * width, placeholder=" ..."), width)
        ax.set_title(f"{title}\n{asked}", fontsize=SMALL, parse_math=False)
        said = f"said: {item['answer']}\n(true: {item['truth']}; trap: {item['trap']})"
        said = "\n".join(fill(shorten(line, 2 * width, placeholder=" ..."), width) for line in said.split("\n"))
        colour = _OUTCOME_COLOURS[item["outcome"]]
        style = dict(ha="center", va="top", fontsize=SMALL, color=colour, parse_math=False)
        ax.text(0.5, -0.03, said, transform=ax.transAxes, **style)
    return fig


_ITEM = ("image", "question", "hint", "answer", "truth", "trap", "level", "format", "outcome")
_OUTCOME_COLOURS = {"vision": BLUE, "bias": RED, "other": GREY}
_LEVELS = {"L1": 3.5, "L2": 6, "L3": 8.5}  # sizes of their markers


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


def _models(own: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Each model with its colour and marker."""
    models = list(own["model"].drop_duplicates())
    return list(zip(models, palette(len(models)), itertools.cycle(MARKERS), strict=False))


def _rows(own: pd.DataFrame, by: str, measure: str) -> tuple[Figure, Axes, list[str]]:
    """A measure by level or category: one row each, named with its n, one series per model."""
    names = list(own[by].drop_duplicates())
    models = _models(own)
    fig, ((ax,),) = panels(1, 1, 0.7 + max(0.32, 0.13 * len(models)) * len(names))
    parts = {model: own[own["model"] == model].set_index(by).reindex(names) for model, _, _ in models}
    forest(ax, [Series(parts[model], measure, colour, _short(model), mark) for model, colour, mark in models], scale=1)
    n = own.groupby(by)["n"].agg(["min", "max"])
    whole = {"all": {"level": "all levels", "category": "all categories"}[by]}
    ax.set_yticks(np.arange(len(names)), [f"{whole.get(name, name)}\nn = {_span(*n.loc[name])}" for name in names])
    ax.set(ylim=(len(names) - 0.5, -0.5), xlim=(-0.02, 1.02))
    ax.grid(axis="y", visible=False)
    return fig, ax, names


def _accuracies(published: pd.DataFrame) -> pd.DataFrame:
    return published[(published["measure"] == "mAcc") & published["n"].notna()]


def _around(part: pd.DataFrame, spokes: list[tuple], name: str) -> np.ndarray:
    """Values in per cent, spoke by spoke, closed."""
    value = 100 * part.set_index(["format", "level"])[name].reindex(spokes).to_numpy(float)
    return np.append(value, value[:1])


def _with_pooled(part: pd.DataFrame, published: pd.DataFrame | None, form: str) -> pd.DataFrame:
    """Rows with the name they are drawn under, VF's pooled shares last."""
    level = part["level"].replace("all", "all levels")
    names = [f"{_short(m)} {lv}\nn = {n:,}" for m, lv, n in zip(part["model"], level, part["n"], strict=True)]
    part = part.assign(name=names)
    if published is None:
        return part
    pooled = published[published["model"].str.contains("pooled") & (published["format"] == form)]
    if pooled.empty:
        return part
    shares = pooled.set_index("measure")["value"]
    row = {f"{name}_published": shares.get(name) for name in _OUTCOMES}
    row |= {"name": "published,\n12 models pooled", "published_source": "VF Figure 5, 12 models pooled", "level": ""}
    return pd.concat([part, pd.DataFrame([row])], ignore_index=True)


def _correlated(correlations: pd.DataFrame | None, first: str, second: str) -> str:
    if correlations is None:
        return ""
    row = correlations.set_index(["first", "second"]).loc[(first, second)]
    if row["r"] != row["r"]:
        return fill(f"{int(row['n'])} models: too few, or too alike, for a correlation", 34)
    interval = f" [{row['r_low']:.2f}, {row['r_high']:.2f}]" if row["r_low"] == row["r_low"] else ""
    return f"r = {row['r']:.2f}{interval}\nover {int(row['n'])} models"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _how(reading: str) -> str:
    return {"generation": "generated answers", "likelihood": "by log-likelihood"}.get(reading, "truth against trap")
