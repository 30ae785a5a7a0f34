"""Drift against a control: Cohen's d and per cent of the control, with intervals by image (HI A.9; METHODS 8, 15).

Both sides are one number per sample. An image may carry samples of either side or of both, so the jackknife leaves it
out of both at once. The interval of d is on its own scale, that of per cent, a quotient of means, on the scale of its
logarithm: drifts are positive and skewed.
"""

import numpy as np
import pandas as pd

from vfkit.metrics import intervals, stats
from vfkit.metrics.intervals import LEVEL

EFFECTS = ("d", "percent")


def cohens_d(mean1, sd1, n1, mean2, sd2, n2):
    """(mean1 - mean2) / pooled SD, sample variances weighted by n - 1 (HI A.9). Numbers or arrays; NaN for no spread.

    HI's controls and drifts are one number per image, 600 images each.
    """
    mean1, sd1, n1, mean2, sd2, n2 = np.broadcast_arrays(mean1, sd1, n1, mean2, sd2, n2)
    pooled = stats.divide((n1 - 1) * sd1**2 + (n2 - 1) * sd2**2, n1 + n2 - 2)
    return stats.divide(mean1 - mean2, np.sqrt(pooled))


def effects(
    values: pd.Series, images: pd.Series, control: pd.Series, control_images: pd.Series, level: float = LEVEL
) -> dict[str, float]:
    """Cohen's d of values against a control, and their mean in per cent of the control's.

    Args:
        values, control: positive numbers, one per sample; images, control_images: the image of each.

    Returns:
        `d`, `percent`, each with its `_low` and `_high`, NaN where fewer than `FEWEST` images of a side contribute.
    """
    names = np.unique(np.concatenate([images, control_images]).astype(str))
    sides = [
        _moments(side.to_numpy(float), np.searchsorted(names, of.to_numpy().astype(str)), len(names))
        for side, of in ((values, images), (control, control_images))
    ]
    there = (sides[0][0] > 0) | (sides[1][0] > 0)
    totals = [side.sum(axis=1, keepdims=True) for side in sides]
    others = [total - side[:, there] for total, side in zip(totals, sides, strict=True)]
    enough = min((side[0] > 0).sum() for side in sides) >= intervals.FEWEST
    row: dict[str, float] = {}
    for name, function in (("d", _d), ("percent", _percent)):
        value, without = float(function(*totals)[0]), function(*others)
        ends = (np.nan, np.nan)
        if enough and np.isfinite(value):
            ends = (
                intervals.interval(value, without, "effect", level) if name == "d" else _of_log(value, without, level)
            )
        row |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return row


def _of_log(value: float, without: np.ndarray, level: float) -> tuple[float, float]:
    if not (value > 0 and (without > 0).all()):
        return np.nan, np.nan
    low, high = intervals.interval(np.log(value), np.log(without), "effect", level)
    return float(np.exp(low)), float(np.exp(high))


def _moments(values: np.ndarray, image: np.ndarray, n: int) -> np.ndarray:
    """Number, sum and sum of squares of values by image [3, image]."""
    return np.stack([np.bincount(image, part, n) for part in (np.ones(len(values)), values, values**2)])


def _d(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Cohen's d from the moments [3, ...] of values and control."""
    sides = []
    for n, total, squares in (ours, theirs):
        middle = stats.divide(total, n)
        sides += [middle, np.sqrt(np.maximum(stats.divide(squares - n * middle**2, n - 1), 0)), n]
    return cohens_d(*sides)


def _percent(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return 100 * stats.divide(stats.divide(ours[1], ours[0]), stats.divide(theirs[1], theirs[0]))
