"""Tables from a specification: what to group by, and for each column a count, a rate, a mean or another estimate.

    tabulate(rows, family_index(rows), {"instances": count(), "flips": total("flip"), "IFR": rate("flip")})

Every estimate `x` comes with `x_low` and `x_high`, its 95 % interval by image (`vfkit.metrics.stats`); rows in which
one of its columns is not finite are left out of it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.frames import family_order

# of rows, the place of each in the table, and the table's length: the new columns by the end of their names
Column = Callable[[pd.DataFrame, np.ndarray, int], Mapping[str, np.ndarray]]
ENDS = {"": "value", "_low": "low", "_high": "high"}


def tabulate(rows: pd.DataFrame, index: pd.Index, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Make a table with one row per entry of `index`, whose names are columns of `rows`.

    Args:
        rows: one row per observation, with its `image`. index: the groups, in the table's order; other rows of `rows`
            are left out. columns: what to compute, by name; each is made by a function of this module.

    Returns:
        Indexed by `index`; counts are integers, and 0 where a group has no rows, estimates NaN.
    """
    keys = list(index.names)
    place = index.get_indexer(rows[keys[0]] if len(keys) == 1 else pd.MultiIndex.from_frame(rows[keys]))
    rows, place = rows[place >= 0].assign(one=1.0), place[place >= 0]
    made = {name: column(rows, place, len(index)) for name, column in columns.items()}
    return pd.DataFrame({f"{name}{end}": v for name, ends in made.items() for end, v in ends.items()}, index=index)


def family_index(rows: pd.DataFrame, **axes: Sequence[str]) -> pd.Index:
    """The families of the rows in the order of all tables, with further axes (`answer=ANSWERS`) within each."""
    families = pd.Index(family_order(rows), name="family", dtype=object)
    return product_index(family=families, **axes) if axes else families


def product_index(**axes: Sequence) -> pd.MultiIndex:
    """All combinations of the axes' values, in order."""
    return pd.MultiIndex.from_product([list(values) for values in axes.values()], names=list(axes))


def count() -> Column:
    """Number of rows."""
    return lambda rows, place, n: {"": np.bincount(place, minlength=n)}


def total(name: str) -> Column:
    """Sum of a column of whole numbers or truth values."""
    return lambda rows, place, n: {"": np.bincount(place, rows[name].to_numpy(float), n).astype(int)}


def distinct(name: str) -> Column:
    """Number of different values of a column."""
    return lambda rows, place, n: {"": _reduced(rows[name], place, n, "nunique").astype(int)}


def spread(name: str) -> Column:
    """Sample SD of a column, over rows."""
    return lambda rows, place, n: {"": _reduced(rows[name], place, n, "std", np.nan)}


def deviation(name: str) -> Column:
    """Sample SD of a column over rows, with its interval."""

    def of(values, clusters, groups) -> pd.DataFrame:
        means = pd.Series(values).groupby(groups).transform("mean").to_numpy()
        return stats.of_sums([(values - means) ** 2, values - means, np.ones(len(values))], _sd, clusters, groups)

    return _estimate(of, name)


def average(name: str) -> Column:
    """Mean of a column over rows, without an interval."""
    return lambda rows, place, n: {"": _reduced(rows[name], place, n, "mean", np.nan)}


def largest(name: str) -> Column:
    """Largest value of a column."""
    return lambda rows, place, n: {"": _reduced(rows[name], place, n, "max", np.nan)}


def rate(numerator: str, denominator: str = "one") -> Column:
    """Share of events: in every row 0 <= numerator <= denominator. `one` is 1 in every row."""
    return _estimate(stats.rate, numerator, denominator)


def ratio(numerator: str, denominator: str) -> Column:
    """Quotient of two sums of any numbers."""
    return _estimate(stats.ratio, numerator, denominator)


def mean(name: str, least: float = -np.inf, most: float = np.inf) -> Column:
    """Mean over rows of a column whose values lie in [least, most], as its interval then does."""
    column = _estimate(stats.mean, name)
    return lambda *group: {end: np.clip(values, least, most) for end, values in column(*group).items()}


def median(name: str) -> Column:
    """Median over rows."""
    return _estimate(stats.median, name)


def difference(numerator: str, denominator: str, other: str, other_denominator: str) -> Column:
    """Difference of two rates over the same images: paired."""
    return _estimate(stats.difference, numerator, denominator, other, other_denominator)


def share(function: Callable, *names: str) -> Column:
    """A function, in [0, 1], of the sums of several columns; the last is what makes a row count."""

    def of(*columns) -> pd.DataFrame:
        *values, clusters, groups = columns
        return stats.of_sums(values, function, clusters, groups, kind="rate")

    return _estimate(of, *names)


def correlation(x: str, y: str, ranked: bool = True) -> Column:
    """Spearman's (ranks taken once, within the group) or Pearson's correlation over rows."""
    return _estimate(partial(stats.correlation, ranked=ranked), x, y)


def _estimate(statistic: Callable, *names: str) -> Column:
    def column(rows: pd.DataFrame, place: np.ndarray, n: int) -> dict[str, np.ndarray]:
        values = rows[list(names)].to_numpy(dtype=float).T
        there = np.isfinite(values).all(axis=0)
        table = statistic(*values[:, there], rows["image"][there], place[there]).reindex(range(n))
        return {end: table[name].to_numpy(float) for end, name in ENDS.items()}

    return column


def _sd(squares, values, n):
    """Sample SD from sums of squares, values and rows; NaN below two rows."""
    return np.sqrt(np.maximum(stats.divide(squares - stats.divide(values**2, n), n - 1), 0))


def _reduced(values: pd.Series, place: np.ndarray, n: int, how: str, empty: float = 0) -> np.ndarray:
    return values.groupby(place).agg(how).reindex(range(n), fill_value=empty).to_numpy()
