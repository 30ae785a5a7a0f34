"""Uncertainty of rates and means: a bootstrap that resamples images, paired differences, McNemar, Holm (METHODS 15).

Rows of one image (its instances, its questions) are not independent, so whole images are drawn: the *clusters*.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.contingency_tables import mcnemar as _mcnemar
from statsmodels.stats.multitest import multipletests

N_BOOT, LEVEL, SEED = 1000, 0.95, 0
_BATCH = 1_000_000  # draws held in memory at once


def ratio(numerator, denominator, clusters, groups=None, **options) -> pd.DataFrame:
    """sum(numerator) / sum(denominator), per group, with a clustered percentile bootstrap interval.

    Args:
        numerator, denominator: one number per row; none may be missing.
        clusters, groups, options: as in `of_sums`.

    Returns:
        As `of_sums`; `value` is NaN where the denominator sums to zero. A rate of exactly 0 (or 1) has an interval of
        zero width, as in any percentile bootstrap; with n images the true rate may still be near 3 / n.
    """
    return of_sums([numerator, denominator], divide, clusters, groups, **options)


def of_sums(
    columns: Sequence,
    function: Callable,
    clusters,
    groups=None,
    parts: int = 1,
    n_boot: int = N_BOOT,
    level: float = LEVEL,
    seed: int = SEED,
) -> pd.DataFrame:
    """A function of sums over rows, per group, with a clustered percentile bootstrap interval.

    Args:
        columns: each one number per row, none missing; the last is the denominator: what makes a row count.
        function: of one array of sums per column, element by element, to an array of values.
        clusters: the image of each row. All clusters are resampled together, so groups stay paired.
        groups: what to tabulate by (one value per row); None for a single row labelled `all`.
        parts: in how many equal parts `columns` come, each with its denominator last.
        n_boot, level, seed: resamples, coverage, and the seed of the draws.

    Returns:
        Indexed by group in order of appearance: `value`, `low`, `high`, `clusters` (images with a non-zero
        denominator). The interval is NaN where fewer than two images contribute: one says nothing of the spread between
        images. Resamples in which the function is NaN (a group's denominator is zero) are left out.
    """
    if groups is None:
        groups = np.full(len(np.asarray(clusters)), "all", dtype=object)
    sums, names = cluster_sums(columns, clusters, groups)  # [column, cluster, group]
    step = len(sums) // parts
    contributing = (sums[step - 1 :: step] != 0).sum(axis=1).min(axis=0)
    value = function(*sums.sum(axis=1))
    totals = np.moveaxis(resample(sums, n_boot, seed), 1, 0)  # [column, boot, group]
    low, high = percentiles(function(*totals), level, contributing)
    table = {"value": value, "low": low, "high": high, "clusters": contributing}
    return pd.DataFrame(table, index=pd.Index(names, name="group"))


rate = ratio  # of events: every row 0 <= numerator <= denominator


def mean(values, clusters, groups=None, **options) -> pd.DataFrame:
    """Mean per group with its clustered interval; rows whose value is not finite are left out. Else as `ratio`."""
    values = np.asarray(values, dtype=float)
    there = np.isfinite(values)
    return ratio(np.where(there, values, 0.0), there.astype(float), clusters, groups, **options)


def difference(
    numerator, denominator, other_numerator, other_denominator, clusters, groups=None, **options
) -> pd.DataFrame:
    """Difference of two ratios of sums over the same clusters, which are resampled jointly: paired. As `ratio` else;
    `value` and interval are NaN where either denominator sums to zero, or fewer than two images have one."""
    columns = [numerator, denominator, other_numerator, other_denominator]
    return of_sums(columns, _less(divide), clusters, groups, parts=2, **options)


def median(values, clusters, groups=None, n_boot: int = N_BOOT, level: float = LEVEL, seed: int = SEED) -> pd.DataFrame:
    """Median per group with its clustered interval; rows whose value is not finite are left out. Else as `ratio`."""
    values = np.asarray(values, dtype=float)
    groups = np.full(len(values), "all", dtype=object) if groups is None else np.asarray(groups, dtype=object)
    cluster, images = pd.factorize(np.asarray(clusters, dtype=object), sort=True)
    group, names = pd.factorize(groups)
    weights = np.concatenate([np.zeros((0, len(images)), int), *draws(len(images), n_boot, seed)])  # the same for all
    found = []
    for number in range(len(names)):
        here = (group == number) & np.isfinite(values)
        order = np.argsort(values[here], kind="stable")
        ordered, owner = values[here][order], cluster[here][order]
        if not len(ordered):
            found.append((np.nan, np.nan, np.nan, 0))
            continue
        step = max(1, _BATCH // len(ordered))
        parts = [weights[start : start + step, owner] for start in range(0, n_boot, step)]
        medians = np.concatenate([_weighted_medians(ordered, part) for part in parts])[:, None]
        contributing = np.array([len(np.unique(owner))])
        low, high = percentiles(medians, level, contributing)
        found.append((float(np.median(ordered)), low[0], high[0], contributing[0]))
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
    """Difference first - second of two ratios on the samples that both frames hold; see `paired_of_sums`."""
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
    """Difference first - second of a function of sums on the samples both frames hold, images resampled jointly.

    Args:
        first, second: frames with `on` (one or more columns), `cluster` and `columns`; any number of rows per sample.
            A sample's cluster is read from `first`.
        columns, function: as in `of_sums`.

    Returns:
        `samples` in common, `first`, `second`, `difference`, `low`, `high`; NaN as in `of_sums`.
    """
    pair = [frame.groupby(on, sort=True)[columns].sum() for frame in (first, second)]
    common = pair[0].index.intersection(pair[1].index)
    if common.empty:
        return {"samples": 0} | dict.fromkeys(("first", "second", "difference", "low", "high"), np.nan)
    image = first.drop_duplicates(on).set_index(on, drop=False).loc[common, cluster]
    numbers = [frame.loc[common, name] for frame in pair for name in columns]
    found = of_sums(numbers, _less(function), image, parts=2, **options).iloc[0]
    totals = [number.sum() for number in numbers]
    a, b = (float(function(*half)) for half in (totals[: len(columns)], totals[len(columns) :]))
    low, high = float(found["low"]), float(found["high"])
    return {"samples": len(common), "first": a, "second": b, "difference": a - b, "low": low, "high": high}


def _less(function: Callable) -> Callable:
    """What `function` makes of the first half of its arguments, less what it makes of the second."""
    return lambda *sums: function(*sums[: len(sums) // 2]) - function(*sums[len(sums) // 2 :])


def mcnemar(first, second) -> dict:
    """Exact two-sided McNemar test of paired yes/no outcomes.

    Returns `only_first`, `only_second` (the discordant pairs) and `p` (1 without discordant pairs, NaN without pairs).
    Pairs count as independent; where several questions share an image, trust the clustered interval more.
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
        adjusted[tested] = multipletests(p[tested], method="holm")[1]
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


def percentiles(values: np.ndarray, level: float, contributing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper percentile of each column of values [boot, group]; NaN below two contributing clusters."""
    low, high = np.full((2, values.shape[1]), np.nan)
    enough = contributing >= 2
    if enough.any():
        tail = (1 - level) / 2
        low[enough], high[enough] = np.nanquantile(values[:, enough], [tail, 1 - tail], axis=0)
    return low, high


def _weighted_medians(ordered: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Medians [boot] of ascending values, each there as often as `weights` [boot, value] say; NaN of none."""
    total = weights.cumsum(axis=1)
    n, some = total[:, -1:], total[:, -1] > 0
    below, above = ((total < place).sum(axis=1)[some] for place in ((n + 1) // 2, n // 2 + 1))
    medians = np.full(len(weights), np.nan)
    medians[some] = (ordered[below] + ordered[above]) / 2
    return medians


def divide(numerator, denominator):
    """numerator / denominator, element by element in float64; NaN where the denominator is 0."""
    numerator, denominator = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator != 0)[()]
