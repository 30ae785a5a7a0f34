"""Figures of yes/no studies (HI 7, App. D, Figure 12): tables of `vfkit.metrics.pope` in."""

import itertools

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    DASHES,
    GREEN,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    RED,
    Series,
    family_axes,
    forest,
    legend,
    palette,
    panels,
    styled,
)
from vfkit.metrics.pope import CASES, MEASURES

_CASES = dict(zip(CASES, zip((BLUE, GREEN, RED, ORANGE), "osD^", DASHES, strict=False), strict=True))
_ANSWERS = {"kept": (BLUE, "answer kept"), "flipped": (RED, "answer flipped")}


@styled()
def plot_pope(table: pd.DataFrame, measures: tuple[str, ...] = MEASURES) -> Figure:
    """POPE's metrics by family, the base on top, splits side by side where there are several (HI 7).

    Args:
        table: of `metrics.pope_table`. measures: which of its rates, one panel each.
    """
    categories = list(table["category"].unique())
    shown = categories[1:] or categories[:1]  # without splits, all questions
    first = table[table["category"] == categories[0]].reset_index(drop=True) if categories else table
    n = [f"n = {row.instances:,} in {row.questions:,} questions" for row in first.itertuples()]
    fig, axes = family_axes(first, len(measures), n)
    for ax, name in zip(axes, measures, strict=True):
        series = []
        for category, colour, mark in zip(shown, palette(len(shown)), itertools.cycle(MARKERS), strict=False):
            part = table[table["category"] == category].reset_index(drop=True)
            label = f"{category.replace('_', ' ')} (n = {part['questions'].max():,} questions)"
            series.append(Series(part, name, colour, label, mark))
        forest(ax, series)
        ax.set(xlim=(-4, 104), xticks=[0, 50, 100], xlabel=f"{name.replace('_', ' ')} (%)")
    legend(fig)
    return fig


@styled()
def plot_pope_transitions(table: pd.DataFrame) -> Figure:
    """How often each base case's answers flip, by family: one panel per case.

    Args:
        table: of `metrics.pope_transition_table`.
    """
    fig, axes = _panels(table, "flip_rate", 100)
    becomes = table.drop_duplicates("case").set_index("case")["becomes"]
    top = 100 * np.nanmax(table[["flip_rate", "flip_rate_high"]].to_numpy(float), initial=0.01)  # one scale for all
    for ax, case in zip(axes, CASES, strict=True):
        ax.set(xlim=(-0.04 * top, 1.04 * top), xlabel=f"flipped to {becomes.get(case, '')} (%)")
    legend(fig)
    return fig


@styled()
def plot_pope_balance(table: pd.DataFrame) -> Figure:
    """Hallucinations lost beside hits lost, and the net change of the rates of errors and of right answers, by family.

    Args:
        table: of `metrics.pope_balance_table`.
    """
    fig, (turned, net) = family_axes(table, 2, [f"n = {row.instances:,}" for row in table.itertuples()])
    forest(
        turned,
        [
            Series(table, "hallucinations_lost_rate", RED, "hallucinations lost (Yes to No)"),
            Series(table, "hits_lost_rate", BLUE, "hits lost (Yes to No)", "D"),
        ],
    )
    changes = [
        Series(table, "FPR_difference", ORANGE, "net: hallucinations, of questions whose truth is No", "s"),
        Series(table, "accuracy_difference", GREEN, "net: right answers, of all questions", "^"),
    ]
    forest(net, changes, zero=True)
    turned.set(xlim=(-4, 104), xlabel="Share of the base case (%)")
    net.set_xlabel("Family minus base (points)")
    legend(fig)
    return fig


@styled()
def plot_prior_drift(table: pd.DataFrame) -> Figure:
    """Drift to prior by family, one panel per base case: 0 stays at the base's margin, 1 arrives at the blank's.

    Args:
        table: of `metrics.prior_drift_table`.
    """
    fig, axes = _panels(table, "drift", 1)
    for ax in axes:
        ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
        ax.axvline(1, color=GREY, linestyle="--", linewidth=1, zorder=1, label="at the prior")
        ax.set_xlabel("drift to prior, median")
    low, high = zip(*(ax.get_xlim() for ax in axes), strict=True)
    for ax in axes:  # one scale for all
        ax.set_xlim(min(*low, -0.5), max(*high, 1.1))
    legend(fig)
    return fig


@styled()
def plot_pope_margins(table: pd.DataFrame) -> Figure:
    """Mean yes-no margins by base case: base, perturbed where the answer was kept, and where it flipped (HI 7).

    Args:
        table: of `metrics.pope_margin_table`; after `paper.beside`, with the published one. The union is drawn, or the
            first family where there is none.
    """
    table = _pooled(table)
    parts = {answer: table[table["answer"] == answer].reset_index(drop=True) for answer in ("all", *_ANSWERS)}
    fig, ax = _by_case(parts["all"], parts["flipped"]["instances"])
    series = [Series(parts["all"], "base", GREY, "base images")]
    for (answer, (colour, label)), mark in zip(_ANSWERS.items(), MARKERS[1:], strict=False):
        series.append(Series(parts[answer], "margin", colour, f"perturbed, {label}", mark))
    forest(ax, series, scale=1, spread=0.36, zero=True)
    ax.set_xlabel("yes-no margin (nats):\nabove 0 the answer is Yes")
    legend(fig)
    return fig


@styled()
def plot_priors(questions: pd.DataFrame, fill: str = "white") -> Figure:
    """Each question's margin with its image against its margin on the blank, and the priors of each base case.

    Args:
        questions: of `metrics.question_priors`. fill: which blank.

    On the diagonal of the margins the image changes nothing.
    """
    questions = questions[questions["fill"] == fill]
    fig, axes = panels(1, 2, 3.1)
    axes = axes[0]
    for case, (colour, mark, dash) in _CASES.items():
        part = questions[questions["case"] == case]
        label, style = f"{case}: {CASES[case]} (n = {len(part):,})", dict(color=colour, linestyle=dash, linewidth=1.4)
        axes[0].plot(part["base_margin"], part["blank_margin"], mark, color=colour, alpha=0.7, markersize=3.5)
        axes[0].plot([], [], marker=mark, markersize=3.5, **style, label=label)
        if len(part):
            axes[1].ecdf(part["prior"], **style)
    both = questions[["base_margin", "blank_margin"]].to_numpy(float)
    if len(both):
        span = [both.min(), both.max()]
        axes[0].plot(
            span, span, color=GREY, linestyle=(0, (4, 4)), linewidth=1, label="image and blank agree", zorder=1
        )
    for line in (axes[0].axhline, axes[0].axvline):
        line(0, color=INK, linewidth=0.8, zorder=1)
    name = "without image" if fill == "none" else f"on a {fill} image"
    axes[0].set(xlabel="yes-no margin on the image (nats)", ylabel=f"yes-no margin {name} (nats)")
    axes[1].axvline(0.5, color=INK, linewidth=0.8, zorder=1)
    axes[1].set(xlim=(-0.02, 1.02), xlabel=f"prior: P(Yes) {name}", ylabel="share of questions at or below")
    legend(fig)
    return fig


@styled()
def plot_inside_cases(drift: pd.DataFrame, dirichlet: pd.DataFrame) -> Figure:
    """What moves inside by base case, kept and flipped: drift of the state, change of the Dirichlet energy (HI App. D).

    Args:
        drift: of `metrics.by_case(drift_table, ...)`. dirichlet: of `by_case(dirichlet_table, ...)`.

    The union is drawn, or the first family where there is none. An answer is kept where the probe's own prompt keeps it
    (left) or the scored option is kept (right, and in the counts).
    """
    drift, dirichlet = _pooled(drift), _pooled(dirichlet)
    whole = drift[drift["answer"] == "all"].rename(columns={"samples": "questions"}).reset_index(drop=True)
    flipped = dirichlet.loc[dirichlet["answer"] == "flipped", "instances"]
    fig, axes = _by_case(whole, flipped, 2)
    for ax, table, name in zip(axes, (drift, dirichlet), ("drift", "delta"), strict=True):
        series = []
        for (answer, (colour, label)), mark in zip(_ANSWERS.items(), MARKERS, strict=False):
            part = table[table["answer"] == answer].reset_index(drop=True)
            series.append(Series(part, name, colour, f"{label}", mark))
        forest(ax, series, scale=1, zero=name == "delta")
    if len(drift):
        control = drift["same_question"].iloc[0]
        axes[0].axvline(control, color=GREY, linestyle="--", linewidth=1, label="same question, other image", zorder=1)
        row = drift.iloc[0]
        axes[0].set_xlabel(f"{row.distance} distance to base, {row.probe}\n(kept by the {row.kept_by})")
    axes[1].set_xlabel("Dirichlet energy per edge,\nperturbed - base (kept by the option)")
    legend(fig)
    return fig


def _panels(table: pd.DataFrame, name: str, scale: float) -> tuple[Figure, np.ndarray]:
    """One panel per base case, a row per family."""
    parts = {case: table[table["case"] == case].reset_index(drop=True) for case in CASES}
    n = [
        "n = " + " | ".join(f"{k:,}" for k in each)
        for each in zip(*(p["instances"] for p in parts.values()), strict=True)
    ]
    fig, axes = family_axes(next(iter(parts.values())), len(CASES), n)
    for ax, (case, part) in zip(axes, parts.items(), strict=True):
        colour, mark, _ = _CASES[case]
        forest(ax, [Series(part, name, colour, "", mark)], scale)
        questions = part["questions"].max() if len(part) else 0
        ax.set_title(f"{case}: {CASES[case]}\nn = {questions:,} questions")
        if not part["instances"].any():
            ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", color=GREY)
    return fig, axes


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the union, or of the first family."""
    union = table[table["family"].str.startswith("union (")] if len(table) else table
    return union if len(union) else table[table["family"] == table["family"].iloc[0]] if len(table) else table


def _by_case(table: pd.DataFrame, flipped: pd.Series, panels: int = 1):
    """A figure with one row per base case; one axes, or as many panels side by side."""
    names = [f"{case}: {CASES[case]}" for case in table["case"]]
    n = [f"n = {row.instances:,}, {k:,} flipped" for row, k in zip(table.itertuples(), flipped, strict=True)]
    fig, axes = family_axes(table.assign(family=names), panels, n)
    return fig, axes[0] if panels == 1 else axes
