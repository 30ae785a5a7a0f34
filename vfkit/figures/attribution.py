"""Figures of where an answer breaks: layer by place, margins by layer, patches, hidden tokens, attention, radius."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from vfkit.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAGE,
    RED,
    SKY,
    Series,
    curves,
    family_axes,
    forest,
    heat_map,
    legend,
    panels,
    spaced,
    styled,
)

_PLACES = {"image": BLUE, "region": RED, "question": GREEN, "answer": ORANGE}
_MARKS = {"image": "o", "region": "s", "question": "D", "answer": "^"}
_CONTROLS = {"random tokens": ":", "other image": "--"}
_NAMES = {
    "image": "all image tokens",
    "region": "tokens that show it",
    "question": "question",
    "answer": "answer position",
}
_HIDDEN = {"region": (RED, "s"), "random tokens": (GREY, "o"), "image": (BLUE, "D")}


@styled()
def plot_layer_drift(table: pd.DataFrame, family: str = "text_overlay") -> Figure:
    """How far states move by layer and place, kept against flipped answers.

    Args:
        table: of `metrics.layer_drift_table`, of one distance.
        family: the perturbation.

    Colours are drift in per cent of the control (the same question on other images); where there is none, as for a
    region, a cell shows the drift alone.
    """
    own = table[(table["family"] == family) & (table["instances"] > 0)]
    own = own.assign(row=own["place"].map(_NAMES) + own["point"].map(lambda p: "" if p == "state" else f",\n{p}"))
    answers = [answer for answer in ("kept", "flipped") if own["answer"].eq(answer).any()] or ["all"]
    height = 1.1 + 0.42 * max(own["row"].nunique(), 1)
    fig, axes = panels(len(answers), 1, 0.3 + 0.8 * height * len(answers), width=PAGE)
    rank = own["place"].map({place: number for number, place in enumerate(_PLACES)})
    order = list(dict.fromkeys(own.assign(rank=rank).sort_values(["point", "rank"], ascending=[False, True])["row"]))
    largest = own.loc[own["answer"].isin(answers), "percent_same_question"].max()  # one scale for both panels
    for ax, answer in zip(axes[:, 0], answers, strict=True):
        part = own[own["answer"] == answer]
        percent, drift = (part.pivot(index="row", columns="layer", values=name).reindex(order) for name in _OF_DRIFT)
        texts = percent.map(lambda x: f"{x:.0f} %" if x == x else "").where(percent.notna(), drift.map(_plain))
        shown = percent.fillna(0.0)
        if percent.notna().any(axis=None):
            heat_map(ax, shown, texts, cmap="Blues", vmin=0, vmax=max(100.0, float(largest)))
        n = int(part["instances"].max()) if len(part) else 0
        ax.set_title(f"{spaced(family)}, {answer}: n = {n} instances, drift in % of control")
    axes[-1, 0].set_xlabel("layer whose state is read (the last: before the final norm)")
    return fig


@styled()
def plot_lens(table: pd.DataFrame, family: str = "text_overlay") -> Figure:
    """Base-label margin by layer: base, and perturbed where the answer was kept and where it flipped (`lens_table`)."""
    fig, ((ax,),) = panels(1, 1, 2.5)
    ax.axhline(0, color=INK, linewidth=0.8)
    parts = [("base", "all", INK, "o", "base")]
    parts += [(family, "kept", BLUE, "s", f"{spaced(family)}, kept")]
    parts += [(family, "flipped", RED, "D", f"{spaced(family)}, flipped")]
    series = []
    for name, answer, colour, mark, label in parts:
        own = _by_layer(table[(table["family"] == name) & (table["answer"] == answer)])
        if len(own):
            series.append(Series(own, "margin", colour, f"{label} (n = {int(own['instances'].max())})", mark))
    curves(ax, series, "layer")
    ax.set(xlabel="layer whose state is read out", ylabel="mean base-label\nmargin (nats)")
    _whole(ax)
    legend(fig)
    return fig


@styled()
def plot_patching(table: pd.DataFrame, family: str = "text_overlay") -> Figure:
    """Restoration by layer and place with its controls (left), and the reverse: how much of the effect the perturbed
    states carry into the base run (right).

    Args:
        table: of `metrics.patch_table`.
    """
    own = table[table["family"] == family]
    fig, (axes,) = panels(1, 2, 2.8, sharey=True)
    sides = [
        ("perturbed", "base", "base states into the perturbed run"),
        ("base", "perturbed", "perturbed states into the base"),
    ]
    for ax, (into, donor, title) in zip(axes, sides, strict=True):
        for at in (0, 100):
            ax.axhline(at, color=INK, linewidth=0.8)
        here = own[own["into"] == into]
        series = [
            Series(_by_layer(part), "restoration", colour, _NAMES[place], _MARKS[place])
            for place, colour in _PLACES.items()
            if len(part := here[(here["place"] == place) & (here["donor"] == donor)])
        ]
        curves(ax, series, "layer", 100)
        for control, dash in _CONTROLS.items():
            for place, colour in _PLACES.items():
                part = _by_layer(here[(here["place"] == place) & (here["donor"] == control)])
                style = dict(color=colour, marker=_MARKS[place], mfc="none", markersize=3, linewidth=0.8)
                ax.plot(part["layer"], 100 * part["restoration"], linestyle=dash, **style)
        ax.set(title=title, xlabel="layer before which states are patched", ylim=(-105, 135))
        _whole(ax)
    for control, dash in _CONTROLS.items():
        axes[0].plot([], [], color=GREY, linestyle=dash, linewidth=0.8, label=f"control: {control} (hollow)")
    axes[0].set_ylabel("restoration, or effect\n(median, %)")
    n = int(own["instances"].max()) if len(own) else 0
    fig.suptitle(f"{spaced(family)}: n = {n} instances whose margin fell")
    legend(fig)
    return fig


@styled()
def plot_knockout(table: pd.DataFrame, family: str = "text_overlay") -> Figure:
    """Share of flips undone, and of other answers broken, by hiding image tokens in a window of layers.

    Args:
        table: of `metrics.knockout_table`.
    """
    own = table[(table["family"] == family) & (table["into"] == "perturbed")]
    windows = list(own[["layer", "last"]].drop_duplicates().itertuples(index=False, name=None))
    names = [f"layers {layer} to {last}" for layer, last in windows]
    rows = pd.DataFrame({"family": names})
    fig, axes = family_axes(rows, 2, [""] * len(names))
    for ax, (name, title) in zip(
        axes, (("undone_rate", "flips undone (%)"), ("broken_rate", "other answers broken (%)")), strict=True
    ):
        series = []
        for place, (colour, mark) in _HIDDEN.items():
            part = own[own["place"] == place].set_index(["layer", "last"]).reindex(windows).reset_index()
            series.append(Series(part, name, colour, f"hidden: {_NAMES.get(place, place)}", mark))
        forest(ax, series if len(rows) else [], zero=True)
        ax.set(xlabel=title, xlim=(-3, 103))
    n = int(own["flipped"].max()) if len(own) else 0
    fig.suptitle(f"{spaced(family)}: n = {n} flips")
    legend(fig)
    return fig


@styled()
def plot_attention(table: pd.DataFrame, family: str = "text_overlay") -> Figure:
    """Where the answer position reads, by layer: shares on image, question and the changed region, and entropy."""
    fig, (axes,) = panels(1, 2, 2.6)
    own = _by_layer(table[(table["family"] == family) & (table["answer"] == "all")])
    base = _by_layer(table[(table["family"] == "base") & (table["answer"] == "all")])
    name = spaced(family)
    shares = [
        Series(part, column, colour, label, mark)
        for part, column, colour, mark, label in (
            (own, "on_image", BLUE, "o", f"image, {name}"),
            (base, "on_image", SKY, "v", "image, base"),
            (own, "on_question", GREEN, "D", f"question, {name}"),
            (own, "on_region", RED, "s", f"changed tokens, {name}"),
            (own, "on_region_base", ORANGE, "^", "the same tokens, base"),
        )
        if len(part) and part[column].notna().any()
    ]
    curves(axes[0], shares, "layer", 100)
    parts = [(own, RED, "P", name), (base, INK, "X", "base")]
    spread = [
        Series(part, "entropy", colour, f"entropy, {what}", mark) for part, colour, mark, what in parts if len(part)
    ]
    curves(axes[1], spread, "layer")
    axes[0].set(xlabel="layer", ylabel="share of attention\n(mean over heads, %)", ylim=(0, None))
    axes[1].set(xlabel="layer", ylabel="entropy (nats)")
    for ax in axes:
        _whole(ax)
    legend(fig)
    return fig


@styled()
def plot_radius(rows: pd.DataFrame) -> Figure:
    """The linear radius of each image, and its margin, against the smallest eps at which the attack flipped it.

    Args:
        rows: of `metrics.radius_rows`. Images that no eps flipped stand at the right edge.
    """
    rows = rows[rows["eps"].notna()]
    finite = rows.loc[np.isfinite(rows["eps"]), "eps"]
    edge = 2 * float(finite.max()) if len(finite) else 1.0
    fig, (axes,) = panels(1, 2, 2.6)
    for ax, name, label in zip(axes, ("radius", "margin"), ("linear radius (1/255)", "margin (nats)"), strict=True):
        for there, mark, text in ((np.isfinite(rows["eps"]), "o", "flipped"), (np.isinf(rows["eps"]), ">", "never")):
            x, legend_text = rows["eps"].clip(upper=edge)[there], f"{text} ({int(there.sum())})"
            ax.plot(x, rows[name][there], mark, color=BLUE, alpha=0.6, label=legend_text)
        ax.set(xlabel="smallest flipping eps of the attack (1/255)", ylabel=label, xscale="log")
        if len(rows) and (rows[name] > 0).all():
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ticks = sorted({*finite, edge}) if len(rows) else []
        ax.set_xticks(ticks, [f"{tick:g}" if tick < edge else "none" for tick in ticks])
        ax.minorticks_off()
    legend(fig)
    return fig


_OF_DRIFT = ("percent_same_question", "drift")


def _plain(value: float) -> str:
    return f"{value:.2g}" if value == value else ""


def _by_layer(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values("layer")


def _whole(ax: Axes) -> None:
    """Layers are whole numbers."""
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
