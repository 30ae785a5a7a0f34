"""Intervals of an estimate from its values without each image in turn (the jackknife; METHODS 15).

The spread of these values is the estimate's variance over images. It comes with a t quantile whose degrees of freedom
fall where few images carry the spread: 3 (sum of squares)^2 / sum of fourth powers - 2, which is n - 1 for normal
numbers and 1 for a single image that differs. What is then done differs by the kind of number:

- `rate`, in [0, 1]: Jeffreys' interval at the effective number of instances, within what the number of images with any
  event allows (times the largest over the mean number of instances an image, by which one image may weigh more); where
  nothing or everything happens Clopper and Pearson's bound by images, 1 - 0.025^(1/images).
- `mean`, any number: a t interval corrected for skew (Hall 1992); none where no image differs from another.
- `effect`, a contrast of two means such as Cohen's d: the t interval, widened to hold the one corrected for skew, whose
  sign a few images decide; none where no image differs.
- `difference` of two rates over the same images: as an effect, within what the numbers of images on which it is
  positive, and negative, allow, as for a rate.
- `correlation`: a t interval on Fisher's z scale; none below `CORRELATED` images.

`vfkit.workshop.coverage` simulates how often they hold the truth.
"""

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

KINDS = ("rate", "mean", "effect", "difference", "correlation")
LEVEL = 0.95
FEWEST = 5  # images; with fewer no interval is given
CORRELATED = 12  # images of a correlation, likewise
ESTIMATED = 24  # images of a rate with an estimated quantile in it, likewise


def interval(value: float, without, kind: str, level: float = LEVEL, events=None, trials=None) -> tuple[float, float]:
    """`low` and `high` of an estimate.

    Args:
        value: the estimate; without: its value without each image in turn.
        kind: of `KINDS`.
        events, trials: of a rate, the events (where it is a plain share) and the instances of each image; of a
            difference of two shares what each image adds to it, and its instances.

    Returns:
        NaN below `FEWEST` images (`CORRELATED` of a correlation), or where a value without an image is not defined.
    """
    without, n, tail = np.asarray(without, dtype=float), len(without), (1 - level) / 2
    if n < (CORRELATED if kind == "correlation" else FEWEST) or not np.isfinite(without).all():
        return np.nan, np.nan
    if kind == "correlation":
        value, without = fisher(value, without)
    moved = without.mean() - without  # how each image pulls the estimate
    squares = moved**2
    still = np.abs(moved).max() <= 1e-12 * (abs(value) if kind in ("mean", "effect") else 1)
    freedom = n - 1 if still else np.clip(3 * squares.sum() ** 2 / (squares**2).sum() - 2, 1, n - 1)
    reach, variance = stdtrit(freedom, 1 - tail), (n - 1) / n * squares.sum()
    if kind == "rate":
        if still and value in (0, 1):
            return exact(value, n, level)
        low, high = _jeffreys(value, variance, reach, tail, max(np.sum(trials), n))
        if events is None:
            return low, high
        weight = np.max(trials) / np.mean(trials)  # an image with more instances counts more than one of the images
        least = 1 - weight * upper(np.sum(np.less(events, trials)), n, tail)
        most = weight * upper(np.sum(np.greater(events, 0)), n, tail)
        return max(low, min(least, value)), min(high, max(most, value))
    error = np.sqrt(variance)
    if kind == "correlation":
        half = reach / np.sqrt(max(n - 3, 1)) if still else reach * error
        ends = np.tanh([value - half, value + half])
    elif still:
        half = upper(0, n, tail) if kind == "difference" else np.nan
        ends = np.array([value - half, value + half])
    else:
        skew = (moved**3).mean() / squares.mean() ** 1.5 / np.sqrt(n)
        ends = value - error * np.array([_unskewed(reach, skew), _unskewed(-reach, skew)])
        if kind != "mean":
            ends = np.array([min(ends[0], value - reach * error), max(ends[1], value + reach * error)])
    if kind == "difference":
        weight = 1.0 if events is None else np.max(trials) / np.mean(trials)
        falls, rises = (n, n) if events is None else (np.sum(np.less(events, 0)), np.sum(np.greater(events, 0)))
        bounds = -weight * upper(falls, n, tail), weight * upper(rises, n, tail)
        ends = np.clip(ends, max(-1.0, min(bounds[0], value)), min(1.0, max(bounds[1], value)))
    low, high = ends
    return float(low), float(high)


def of_draws(value: float, drawn, images: int, level: float = LEVEL, kind: str = "rate") -> tuple[float, float]:
    """The interval of a rate, or a `difference` of two, from its values in resampled images, for what no jackknife
    serves.

    Such a number has an estimated quantile in it, as the share of instances beyond a control's 5th percentile.

    Returns:
        `low`, `high`. Of a rate, Jeffreys' interval at the effective number that the variance of the draws tells; of a
        difference a t interval; both widened to hold the draws' own percentiles, as an estimated quantile is biased
        where few images tell it; NaN below `ESTIMATED` images. The exact bound by images where nothing or everything
        happens, or no draw differs; NaN below `FEWEST` images.
    """
    drawn, tail = np.asarray(drawn, dtype=float), (1 - level) / 2
    drawn = drawn[np.isfinite(drawn)]
    if images < FEWEST or not np.isfinite(value) or len(drawn) < 2:
        return np.nan, np.nan
    variance, reach = drawn.var() * images / (images - 1), stdtrit(images - 1, 1 - tail)
    if kind == "difference" and not variance:
        half = upper(0, images, tail)
        return max(value - half, -1.0), min(value + half, 1.0)
    if kind == "rate" and value in (0, 1):
        return exact(value, images, level)
    if images < ESTIMATED:
        return np.nan, np.nan
    if kind == "difference":
        half = reach * np.sqrt(variance)
        low, high = max(value - half, -1.0), min(value + half, 1.0)
    else:
        low, high = _jeffreys(value, variance, reach, tail, np.inf if variance else images)
    least, most = np.quantile(drawn, [tail, 1 - tail])
    return float(min(low, least)), float(max(high, most))


def exact(value: float, images: int, level: float = LEVEL) -> tuple[float, float]:
    """Clopper and Pearson's interval for 0 or all of `images`: [0, 1 - tail^(1/images)], or its mirror image."""
    most = upper(0, images, (1 - level) / 2)
    return (0.0, most) if value == 0 else (1 - most, 1.0)


def upper(count: int, n: int, tail: float) -> float:
    """Clopper and Pearson's upper end for `count` of `n`: 1 - tail^(1/n) for none."""
    return 1.0 if count >= n else float(betaincinv(count + 1, n - count, 1 - tail))


def fisher(value: float, without: np.ndarray) -> tuple[float, np.ndarray]:
    """Fisher's z of correlations. A perfect one, whose z is infinite, counts as 1 / (images + 1) short of it, or as the
    strongest of the others."""
    every = np.append(without, value)
    imperfect = np.abs(every)[np.abs(every) < 1 - 1e-9]
    most = max([1 - 1 / (len(without) + 1), *imperfect])
    every = np.arctanh(np.clip(every, -most, most))
    return every[-1], every[:-1]


def _jeffreys(value, variance, reach, tail, most) -> tuple[float, float]:
    """Jeffreys' interval at the effective number of instances, made smaller for a quantile beyond the normal one."""
    effective = value * (1 - value) / variance * (ndtri(1 - tail) / reach) ** 2 if variance else np.inf
    effective = min(effective, most)
    low, high = betaincinv(value * effective + 0.5, (1 - value) * effective + 0.5, [tail, 1 - tail])
    return float(low), float(high)


def _unskewed(reach: float, skew: float) -> float:
    """Hall's transformation, inverted: the quantile of a t statistic whose numbers are skewed."""
    if abs(skew) < 1e-6:
        return reach
    return 3 / skew * (np.cbrt(1 + skew * (reach - skew / 6)) - 1)
