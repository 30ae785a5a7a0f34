"""Figures of the answers: flips, transitions, margins (tables of `vfkit.metrics` in), and a gallery of flips."""

from textwrap import fill, shorten

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREEN,
    INK,
    MARKERS,
    PAGE,
    RED,
    SMALL,
    Series,
    family_axes,
    forest,
    legend,
    letters,
    noise_floor,
    spaced,
    styled,
)

_TRANSITIONS = {"R->R": (BLUE, ""), "R->W": (RED, "/////"), "W->R": (GREEN, "....."), "W->W": ("#D8D8D8", "")}
_ITEM = ("base_image", "image", "question", "base_answer", "answer", "family")


@styled()
def plot_flips(table: pd.DataFrame) -> Figure:
    """IFR and IV by family with their intervals, the noise floor as a line, published values as hollow markers.

    Args:
        table: of `metrics.flip_table`; after `paper.beside`, with the published values.
    """
    fig, axes = family_axes(table, 2, _counts(table))
    floor = table[(table["family"] == "identity") & (table["instances"] > 0)]
    for ax, name in zip(axes, ("IFR", "IV"), strict=True):
        forest(ax, [Series(table, name, BLUE, "ours")])
        for value in 100 * floor[name]:
            noise_floor(ax, value)
        ax.set_xlim(left=min(0, ax.get_xlim()[0]))
    axes[0].set_xlabel("Instance flip rate, IFR\n(% of instances)")
    axes[1].set_xlabel("Image vulnerability, IV\n(% of samples)")
    legend(fig)
    return fig


@styled()
def plot_transitions(table: pd.DataFrame) -> Figure:
    """Shares of R->R, R->W, W->R, W->W by family, and the two rates with their intervals.

    Args:
        table: of `metrics.transition_table`; after `paper.beside`, with the published rates.
    """
    right, wrong = (table[f"{start}->R"] + table[f"{start}->W"] for start in "RW")
    n = [f"n = {a:,} base-correct,\n{b:,} base-wrong" for a, b in zip(right, wrong, strict=True)]
    fig, axes = family_axes(table, 2, n)
    left = np.zeros(len(table))
    for name, (colour, hatch) in _TRANSITIONS.items():
        share = 100 * table[name].to_numpy(float) / np.maximum(table["instances"].to_numpy(float), 1)
        style = dict(height=0.62, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
        axes[0].barh(np.arange(len(table)), share, left=left, **style, label=name)
        left += share
    axes[0].set(xlim=(0, 100), xlabel="Share of instances\nwith ground truth (%)")
    rates = {"R->W": "R->W, % of base-correct", "W->R": "W->R, % of base-wrong"}
    forest(
        axes[1],
        [
            Series(table, f"{name}_rate", _TRANSITIONS[name][0], label, mark)
            for (name, label), mark in zip(rates.items(), MARKERS, strict=False)
        ],
    )
    axes[1].set_xlim(left=min(0, axes[1].get_xlim()[0]))
    axes[1].set_xlabel("Rate (% of base-correct\nor base-wrong instances)")
    legend(fig)
    return fig


@styled()
def plot_margins(table: pd.DataFrame) -> Figure:
    """Change of the base-label margin (HI eq. 2) by family, for kept and for flipped answers, with intervals.

    Args:
        table: of `metrics.margin_table`.
    """
    parts = {answer: table[table["answer"] == answer].reset_index(drop=True) for answer in ("kept", "flipped")}
    n = [f"n = {k:,} kept, {f:,} flipped" for k, f in zip(*(part["instances"] for part in parts.values()), strict=True)]
    fig, (ax,) = family_axes(parts["kept"], 1, n)
    kept = Series(parts["kept"], "change", BLUE, "answer kept")
    forest(ax, [kept, Series(parts["flipped"], "change", RED, "answer flipped", "D")], scale=1, zero=True)
    ax.set_xlabel("Change of the base-label margin,\nperturbed - base (nats)")
    legend(fig)
    return fig


@styled()
def plot_gallery(items: list[dict], columns: int = 2) -> Figure:
    """Pairs of base and perturbed image with the question and the answer to each.

    Args:
        items: one dict per pair: `base_image`, `image` (PIL), `question`, `base_answer`, `answer`, `family`.
        columns: pairs side by side.

    Raises:
        ValueError: no items, or an item that lacks one of the above.
    """
    if not items:
        raise ValueError("a gallery needs at least one item")
    for item in items:
        if missing := [name for name in _ITEM if name not in item]:
            raise ValueError(f"a gallery item lacks {', '.join(missing)}")
    columns = min(columns, len(items))
    rows = -(-len(items) // columns)
    tall = [max(i.height / i.width for i in (item["base_image"], item["image"])) for item in items]
    side = PAGE / 2 / columns
    heights = [1.0 + (side - 0.2) * min(max(tall[row * columns : (row + 1) * columns]), 1.5) for row in range(rows)]
    fig = plt.figure(figsize=(PAGE, sum(heights)))
    cells = np.ravel(fig.subfigures(rows, columns, squeeze=False, height_ratios=heights))
    for cell, item in zip(cells, items, strict=False):
        cell.suptitle(
            fill(shorten(str(item["question"]), 150, placeholder=" ..."), letters(2 * side) - 8),
            x=0.03,
            ha="left",
            fontsize=8,
            parse_math=False,
        )
        pair = cell.subplots(1, 2)
        family = spaced(item["family"])
        shown = [("base_image", "base", "base_answer", BLUE), ("image", family, "answer", RED)]
        for ax, (image, title, answer, colour) in zip(pair, shown, strict=True):
            ax.imshow(item[image])
            ax.set(xticks=[], yticks=[], anchor="N")
            ax.spines[:].set_visible(True)
            ax.set_title(title, fontsize=SMALL, color=INK)
            text = fill(shorten(f"answer: {item[answer]}", 64, placeholder=" ..."), letters(side) - 4)
            ax.set_xlabel(text, color=colour, weight="bold", fontsize=SMALL, parse_math=False)
    return fig


def _counts(table: pd.DataFrame) -> list[str]:
    return [f"n = {row.instances:,} in {row.samples:,} samples" for row in table.itertuples()]
