"""Figures of calibration: confidence against accuracy, risk against coverage, how sure flipped answers are."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vfkit.figures.style import BLUE, GREY, INK, MARKERS, ORANGE, RED, Series, family_axes, forest, legend, styled


@styled()
def plot_calibration(table: pd.DataFrame, flips: pd.DataFrame) -> Figure:
    """Confidence - accuracy by family, before and after the temperature; how sure kept and flipped answers are.

    Args:
        table: of `metrics.calibration_table`. flips: of `metrics.flip_confidence_table`.
    """
    n = [f"n = {row.instances:,} in {row.samples:,} samples" for row in table.itertuples()]
    fig, (gap, sure) = family_axes(table, 2, n)
    shown = flips.set_index("family").reindex(table["family"]).reset_index()
    temperature = table["temperature"].dropna().iloc[:1]
    label = "after a temperature" + "".join(f" of {value:.2f}, fitted on base images" for value in temperature)
    forest(gap, [Series(table, "gap", BLUE, "as scored"), Series(table, "gap_scaled", ORANGE, label, "s")], zero=True)
    series = [Series(shown, "kept", GREY, "answer kept", "o"), Series(shown, "flipped", RED, "answer flipped", "D")]
    forest(sure, [*series, Series(shown, "base_flipped", BLUE, "the base answer of those that flip", "s")])
    gap.set_xlabel("Confidence - accuracy (points); above 0: too sure")
    sure.set(xlabel="Mean confidence of the answer (%)", xlim=(0, 102))
    legend(fig)
    return fig


@styled()
def plot_reliability(bins: pd.DataFrame, risk: pd.DataFrame, families: Sequence[str] | None = None) -> Figure:
    """Accuracy against confidence, and risk against coverage, of base images and under perturbation.

    Args:
        bins: of `metrics.reliability_table`. risk: of `metrics.risk_table`.
        families: which to draw; None takes the base and the union, or where there is none the last of HI's families.
    """
    shown = _shown(risk["family"].unique()) if families is None else families
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9))
    left.plot([0, 100], [0, 100], color=GREY, linestyle="--", linewidth=1, label="calibrated", zorder=1)
    for family, colour, mark in zip(shown, (BLUE, RED, ORANGE, INK), MARKERS, strict=False):
        own = bins[bins["family"] == family]
        label = f"{family.replace('_', ' ')}, n = {own['instances'].sum():,}"
        _curve(left, own, "confidence", "accuracy", colour, label, mark)
        _curve(right, risk[risk["family"] == family], "coverage", "risk", colour, label, mark)
    left.set(xlabel="Confidence (%), mean of a bin", ylabel="Accuracy (%)", xlim=(0, 102), ylim=(-2, 102))
    right.set(xlabel="Coverage: surest answers given (%)", ylabel="Risk: error rate among them (%)", xlim=(0, 102))
    legend(fig)
    return fig


def _shown(families: np.ndarray) -> list[str]:
    """The base, and the union of families, or the last family that is no control."""
    others = [family for family in families if family not in ("base", "identity", "random_text", "box_overlay")]
    union = [family for family in others if family.startswith("union (")]
    return ["base"] * ("base" in families) + (union or others[-1:])


def _curve(ax: Axes, table: pd.DataFrame, x: str, y: str, colour: str, label: str, mark: str) -> None:
    low, value, high = (100 * table[f"{y}{end}"].to_numpy(float) for end in ("_low", "", "_high"))
    at = 100 * table[x].to_numpy(float)
    ax.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    ax.plot(at, value, mark, linestyle="-", color=colour, markersize=3.5, linewidth=1.4, label=label)
