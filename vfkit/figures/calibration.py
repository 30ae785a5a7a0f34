"""Figures of calibration: confidence against accuracy, risk against coverage, how sure flipped answers are."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from vfkit.figures.style import (
    BLUE,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    RED,
    Series,
    curves,
    family_axes,
    forest,
    legend,
    panels,
    spaced,
    styled,
)


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
    series = [
        Series(shown, "confidence_kept", GREY, "answer kept", "v"),
        Series(shown, "confidence_flipped", RED, "answer flipped", "D"),
    ]
    forest(sure, [*series, Series(shown, "base_confidence_flipped", BLUE, "the base answer of those that flip", "^")])
    gap.set_xlabel("Confidence - accuracy (points)\nabove 0: too sure")
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
    fig, ((left, right),) = panels(1, 2, 2.8)
    left.plot([0, 100], [0, 100], color=GREY, linestyle=":", linewidth=1.2, label="calibrated", zorder=1)
    accuracy, errors = [], []
    for family, colour, mark in zip(shown, (BLUE, RED, ORANGE, INK), MARKERS, strict=False):
        own, rest = bins[bins["family"] == family], risk[risk["family"] == family]
        label = f"{spaced(family)}, n = {own['instances'].sum():,}"
        accuracy.append(Series(own.assign(at=100 * own["confidence"]), "accuracy", colour, label, mark))
        errors.append(Series(rest.assign(at=100 * rest["coverage"]), "risk", colour, label, mark))
    curves(left, accuracy, "at", 100, apart=0)
    curves(right, errors, "at", 100, apart=0)
    left.set(xlabel="Confidence (%), mean of a bin", ylabel="Accuracy (%)", xlim=(0, 102), ylim=(-2, 102))
    right.set(xlabel="Coverage: surest answers (%)", ylabel="Risk: errors among them (%)", xlim=(0, 102))
    legend(fig)
    return fig


def _shown(families: np.ndarray) -> list[str]:
    """The base, and the union of families, or the last family that is no control."""
    others = [family for family in families if family not in ("base", "identity", "random_text", "box_overlay")]
    union = [family for family in others if family.startswith("union (")]
    return ["base"] * ("base" in families) + (union or others[-1:])
