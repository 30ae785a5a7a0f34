"""Rates, means, differences and correlations with their intervals by image, and exact tests (METHODS 15).

Rows of one image (its instances, its questions) are not independent, so the unit is the image: the *cluster*. An
estimate is a function of sums over rows; its interval comes from the sums without each image in turn
(`vfkit.metrics.intervals`).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from statsmodels.stats.contingency_tables import mcnemar as _mcnemar

from vfkit.metrics.intervals import FEWEST, KINDS, LEVEL, interval

N_BOOT, SEED = 1000, 0
_BATCH = 1_000_000  # draws held in memory at once


def rate(numerator, denominator, clusters, groups=None, level: float = LEVEL) -> pd.DataFrame:
    """Share of events, sum(numerator) / sum(denominator), per group, with its interval by image.

    Args:
        numerator, denominator: counts per row, 0 <= numerator <= denominator; none may be missing.
        clusters, groups, level: as in `of_sums`.
    """
    return of_sums([numerator, denominator], divide, clusters, groups, kind="rate", level=level)


def ratio(numerator, denominator, clusters, groups=None, level: float = LEVEL) -> pd.DataFrame:
    """sum(numerator) / sum(denominator) of any numbers, per group, with its interval by image. Else as `rate`."""
    return of_sums([numerator, denominator], divide, clusters, groups, kind="mean", level=level)


def mean(values, clusters, groups=None, level: float = LEVEL) -> pd.DataFrame:
    """Mean per group with its interval by image; rows whose value is not finite are left out. Else as `ratio`."""
    values = np.asarray(values, dtype=float)
    there = np.isfinite(values)
    return ratio(np.where(there, values, 0.0), there.astype(float), clusters, groups, level)


def difference(
    numerator, denominator, other_numerator, other_denominator, clusters, groups=None, level: float = LEVEL
) -> pd.DataFrame:
    """Difference of two rates over the same images: paired. Else as `rate`; NaN where a denominator sums to zero."""
    columns = [numerator, denominator, other_numerator, other_denominator]
    return of_sums(columns, less(divide), clusters, groups, kind="difference", level=level)


def correlation(x, y, clusters, groups=None, ranked: bool = True, level: float = LEVEL) -> pd.DataFrame:
    """Spearman's (or Pearson's) correlation of rows per group, with its interval by image.

    Args:
        x, y: one number per row; rows in which one is not finite are left out.
        ranked: Spearman's; ranks are taken within the group, and the interval heeds that every row moves those of
            others (the influence function of the rank moments).
        clusters, groups, level: as in `of_sums`.

    Returns:
        As `of_sums`; NaN where a side does not vary.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    groups = np.full(len(x), "all", dtype=object) if groups is None else np.asarray(groups, dtype=object)
    there = np.isfinite(x) & np.isfinite(y)
    group = pd.factorize(groups)[0]
    columns = np.zeros((6, len(x)))
    for number in range(group.max() + 1 if len(x) else 0):
        here = np.flatnonzero(there & (group == number))
        if len(here):
            columns[:, here] = (_rank_moments if ranked else _moments)(x[here], y[here])
    return of_sums(list(columns), _pearson, clusters, groups, kind="correlation", level=level)


def of_sums(
    columns: Sequence,
    function: Callable,
    clusters,
    groups=None,
    kind: str = "mean",
    level: float = LEVEL,
) -> pd.DataFrame:
    """A function of sums over rows, per group, with its interval by image.

    Args:
        columns: each one number per row, none missing; the last is the denominator: what makes a row count. For a
            `difference`, two such sets one after the other.
        function: of one array of sums per column, element by element, to an array of values.
        clusters: the image of each row.
        groups: what to tabulate by (one value per row); None for a single row labelled `all`.
        kind: of `KINDS`: what number it is.
        level: of the interval.

    Returns:
        Indexed by group in order of appearance: `value`, `low`, `high`, `clusters` (images that contribute). The
        interval is NaN where fewer than `FEWEST` images contribute.
    """
    if kind not in KINDS:
        raise ValueError(f"a number of kind {kind!r} is none of {', '.join(KINDS)}")
    if groups is None:
        groups = np.full(len(np.asarray(clusters)), "all", dtype=object)
    sums, names = cluster_sums(columns, clusters, groups)  # [column, cluster, group]
    parts = 2 if kind == "difference" else 1
    weight = sums[len(sums) // parts - 1 :: len(sums) // parts]  # [part, cluster, group]
    total = sums.sum(axis=1)
    value = np.asarray(function(*total), dtype=float)
    contributing = (weight != 0).sum(axis=1).min(axis=0)
    low, high = np.full((2, len(names)), np.nan)
    for i in np.flatnonzero((contributing >= FEWEST) & np.isfinite(value)):
        own = sums[:, (weight[..., i] != 0).any(axis=0), i]  # [column, contributing cluster]
        without = function(*(total[:, i, None] - own))
        events, trials = own[0] if len(own) == 2 else None, own[-1]
        if kind == "difference" and len(own) == 4:
            first, second = own[1] / own[1].mean(), own[3] / own[3].mean()
            events, trials = own[0] / own[1].sum() - own[2] / own[3].sum(), max(first, second, key=np.max)
        low[i], high[i] = interval(value[i], without, kind, level, events, trials)
    table = {"value": value, "low": low, "high": high, "clusters": contributing}
    return pd.DataFrame(table, index=pd.Index(names, name="group"))


def median(values, clusters, groups=None, level: float = LEVEL) -> pd.DataFrame:
    """Median per group with its interval by image; rows whose value is not finite are left out. Else as `rate`.

    The interval of the share of rows at or below the median, read off the values (Woodruff's method).
    """
    values = np.asarray(values, dtype=float)
    clusters = np.asarray(clusters, dtype=object)
    groups = np.full(len(values), "all", dtype=object) if groups is None else np.asarray(groups, dtype=object)
    group, names = pd.factorize(groups)
    found = []
    for number in range(len(names)):
        here = (group == number) & np.isfinite(values)
        own, middle = values[here], np.nan
        row = {"low": np.nan, "high": np.nan, "clusters": 0}
        if len(own):
            middle = float(np.median(own))
            row = rate(own <= middle, np.ones(len(own)), clusters[here], level=level).iloc[0]
        ends = np.array([row["low"], row["high"]])
        if np.isfinite(ends).all():
            shares = np.clip(ends + 0.5 - row["value"], 0, 1)
            ends = np.array([np.quantile(own, shares[0], method="lower"), np.quantile(own, shares[1], method="higher")])
        found.append((middle, *ends, int(row["clusters"])))
    return pd.DataFrame(found, columns=["value", "low", "high", "clusters"], index=pd.Index(names, name="group"))


def paired_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    numerator: str,
    denominator: str,
    on: str = "sample_id",
    cluster: str = "image_id",
    **options,
) -> dict:
    """Difference first - second of two rates on the samples that both frames hold; see `paired_of_sums`."""
    return paired_of_sums(first, second, [numerator, denominator], divide, on, cluster, **options)


def paired_of_sums(
    first: pd.DataFrame,
    second: pd.DataFrame,
    columns: list[str],
    function: Callable,
    on: str | list[str] = "sample_id",
    cluster: str = "image_id",
    **options,
) -> dict:
    """Difference first - second of a function of sums, in [0, 1], on the samples both frames hold.

    Args:
        first, second: frames with `on` (one or more columns), `cluster` and `columns`; any number of rows per sample.
            A sample's cluster is read from `first`.
        columns, function, options: as in `of_sums`.

    Returns:
        `samples` in common, `clusters` (images), `first`, `second`, `difference`, `low`, `high`; NaN as in `of_sums`.
    """
    pair = [frame.groupby(on, sort=True)[columns].sum() for frame in (first, second)]
    common = pair[0].index.intersection(pair[1].index)
    if common.empty:
        return {"samples": 0, "clusters": 0} | dict.fromkeys(("first", "second", "difference", "low", "high"), np.nan)
    image = first.drop_duplicates(on).set_index(on, drop=False).loc[common, cluster]
    numbers = [frame.loc[common, name] for frame in pair for name in columns]
    found = of_sums(numbers, less(function), image, kind="difference", **options).iloc[0]
    totals = [number.sum() for number in numbers]
    a, b = (float(function(*half)) for half in (totals[: len(columns)], totals[len(columns) :]))
    counts = {"samples": len(common), "clusters": int(found["clusters"])}
    return counts | dict(first=a, second=b, difference=a - b, low=float(found["low"]), high=float(found["high"]))


def less(function: Callable) -> Callable:
    """The function of the first half of the arguments, minus that of the second half."""
    return lambda *sums: function(*sums[: len(sums) // 2]) - function(*sums[len(sums) // 2 :])


def mcnemar(first, second) -> dict:
    """Exact two-sided McNemar test of paired yes/no outcomes.

    Returns `only_first`, `only_second` (the discordant pairs) and `p` (1 without discordant pairs, NaN without pairs).
    Pairs count as independent: give one pair per image.
    """
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first.shape != second.shape:
        raise ValueError(f"McNemar compares pairs: {first.shape} outcomes against {second.shape}")
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    table = [[(first & second).sum(), only_first], [only_second, (~first & ~second).sum()]]
    p = float(_mcnemar(table, exact=True).pvalue) if len(first) else np.nan
    return {"only_first": only_first, "only_second": only_second, "p": p}


def holm(p) -> np.ndarray:
    """Holm-adjusted p-values, in the order given; NaN stays NaN and is not counted among the tests."""
    p = np.asarray(p, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        own = p[tested]
        order, left = np.argsort(own, kind="stable"), np.arange(len(own), 0, -1)
        own[order] = np.minimum(np.maximum.accumulate(own[order] * left), 1)
        adjusted[tested] = own
    return adjusted


def cluster_sums(columns, clusters, groups) -> tuple[np.ndarray, np.ndarray]:
    """Sums [column, cluster, group] of each column, and the groups' names in order of appearance."""
    cluster, images = pd.factorize(np.asarray(clusters, dtype=object), sort=True)  # whatever the order of the rows
    group, names = pd.factorize(np.asarray(groups, dtype=object))
    if (cluster < 0).any() or (group < 0).any():
        raise ValueError("a row has no cluster or no group")
    cell, shape = cluster * len(names) + group, (len(images), len(names))
    weights = [np.asarray(column, dtype=float) for column in columns]
    if any(np.isnan(column).any() for column in weights):
        raise ValueError("a row has no number; leave it out, or give it a zero denominator")
    return np.stack([np.bincount(cell, column, shape[0] * shape[1]).reshape(shape) for column in weights]), names


def resample(sums: np.ndarray, n_boot: int = N_BOOT, seed: int = SEED) -> np.ndarray:
    """Totals [boot, column, group] over clusters drawn with replacement from sums [column, cluster, group]."""
    columns, n, groups = sums.shape
    flat = np.moveaxis(sums, 1, 0).reshape(n, columns * groups)
    totals = [weights.astype(float) @ flat for weights in draws(n, n_boot, seed)]
    return np.concatenate(totals or [np.empty((n_boot, 0))]).reshape(n_boot, columns, groups)


def draws(n: int, n_boot: int = N_BOOT, seed: int = SEED) -> Iterator[np.ndarray]:
    """How often each of `n` clusters is drawn, with replacement: batches [boot, cluster], `n_boot` rows in all."""
    rng, batch = np.random.default_rng(seed), max(1, _BATCH // max(n, 1))
    for start in range(0, n_boot if n else 0, batch):
        size = min(batch, n_boot - start)
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)


def divide(numerator, denominator):
    """numerator / denominator, element by element in float64; NaN where the denominator is 0."""
    numerator, denominator = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator != 0)[()]


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The columns that `_pearson` sums: x, y, xx, yy, xy, 1 by row, of values scaled so that squares lose no digits."""
    x, y = (np.zeros(len(side)) if np.ptp(side) == 0 else (side - side.mean()) / side.std() for side in (x, y))
    return np.stack([x, y, x * x, y * y, x * y, np.ones(len(x))])


def _rank_moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As `_moments`, of centred ranks from -1/2 to 1/2; what a row adds to a moment holds what it does to the ranks of
    all others, so that leaving images out counts that, too."""
    x_rank, y_rank = (np.zeros(len(side)) if np.ptp(side) == 0 else (rankdata(side) - 0.5) / len(side) - 0.5
                      for side in (x, y))  # fmt: skip
    columns = [np.zeros(len(x)), np.zeros(len(x))]
    for (one, first), (other, second) in (((x, x_rank),) * 2, ((y, y_rank),) * 2, ((x, x_rank), (y, y_rank))):
        through = _mean_above(one, second) + _mean_above(other, first)
        columns.append(first * second + through - through.mean())
    return np.stack([*columns, np.ones(len(x))])


def _mean_above(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """For each row the sum, over rows whose value is larger, of a column, half of it where equal, / all rows."""
    order = np.argsort(values, kind="stable")
    total = np.concatenate([[0.0], of[order].cumsum()])
    ends = [np.searchsorted(values[order], values, side) for side in ("left", "right")]
    return (total[-1] - (total[ends[0]] + total[ends[1]]) / 2) / len(values)


def _pearson(x, y, xx, yy, xy, n):
    """Correlation from sums; NaN where a side does not vary."""
    spread = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    return np.clip(divide(n * xy - x * y, np.where(spread > 1e-9 * np.maximum(n, 1) ** 2, spread, 0)), -1, 1)
