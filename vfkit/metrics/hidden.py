"""Hidden instability: the answer is kept, and the state moves as if the image were another one (METHODS 8).

The threshold is the 5th percentile of the distances of the `same_question` control, in the sample's own category. It is
an estimate: the interval of every rate that rests on it draws images for counts and control pairs together, and
takes the threshold anew in every draw.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import intervals, stats

PERCENTILE = 5
_BLOCK = 4_000  # instances held against all draws at once
FEWEST_PAIRS = 20  # of a category's own threshold; smaller categories share one, from all pairs


def thresholds(pairs: pd.DataFrame, percentile: float = PERCENTILE) -> pd.DataFrame:
    """The threshold of each category: `samples`, `pairs`, `threshold`, and `shared` where it is that of all pairs.

    Args:
        pairs: of `controls.control_pairs`.
    """
    grouped = pairs.groupby("category")["drift"]
    table = pd.DataFrame({"samples": pairs.groupby("category")["sample"].nunique(), "pairs": grouped.size()})
    table["shared"] = table["pairs"] < FEWEST_PAIRS
    own = grouped.quantile(percentile / 100)
    every = pairs["drift"].quantile(percentile / 100) if len(pairs) else np.nan
    table["threshold"] = own.where(~table["shared"], every)
    return table


def beyond(rows: pd.DataFrame, pairs: pd.DataFrame, percentile: float = PERCENTILE) -> pd.Series:
    """Whether each row's drift exceeds the threshold of its category, that of all pairs where the category has none."""
    table = thresholds(pairs, percentile)
    own = table["threshold"].where(~table["shared"]).reindex(rows["category"]).to_numpy(float)
    every = pairs["drift"].quantile(percentile / 100)
    return rows["drift"] > np.where(np.isnan(own), every, own)


def beyond_rates(
    rows: pd.DataFrame,
    index: pd.MultiIndex,
    pairs: pd.DataFrame,
    rates: Sequence[tuple[str, ...]],
    percentile: float = PERCENTILE,
) -> pd.DataFrame:
    """Shares of instances that moved beyond the threshold of their category, with their intervals.

    Args:
        rows: instances with `image`, `category`, `drift`, the columns that `rates` name, and those of `index`.
        index: the table's groups. pairs: of `controls.control_pairs`.
        rates: (name, which, of): of the instances in which `of` is true, those with `which` true and a drift beyond.
            (name, which, of, less): this share minus that of the instances in which `less` is true.
        percentile: of the control's distances that is the threshold.

    Returns:
        By `index`: `threshold`, the mean over the group's instances; `threshold_pairs`, the fewest control pairs that
        the threshold of one of them rests on; and every rate with its `_low` and `_high`. Empty without pairs.
    """
    empty = np.full(len(index), np.nan)
    table = {"threshold": empty.copy(), "threshold_pairs": np.zeros(len(index), dtype=int)}
    table |= {f"{name}{end}": empty.copy() for name, *_ in rates for end in ("", "_low", "_high")}
    if not len(pairs):
        return pd.DataFrame(table, index=index)
    estimated = thresholds(pairs, percentile)
    own = estimated.index[~estimated["shared"]]
    code = {"rows": own.get_indexer(rows["category"]), "pairs": own.get_indexer(pairs["category"])}  # -1: shared
    images = np.unique(np.concatenate([rows["image"], pairs["image"]]).astype(str))
    at = {"rows": _places(images, rows["image"]), "pairs": _places(images, pairs["image"])}
    weights = np.concatenate(list(stats.draws(len(images)))).astype(np.float32)  # [boot, image]
    place = index.get_indexer(pd.MultiIndex.from_frame(rows[list(index.names)]))
    drift = rows["drift"].to_numpy(float)
    ones = np.ones((1, len(images)), dtype=np.float32)
    threshold, size, blocks = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=int), []
    for one in np.unique(code["rows"]):
        here, mine = np.flatnonzero(code["rows"] == one), (one < 0) | (code["pairs"] == one)
        values, owner = pairs["drift"].to_numpy(float)[mine], at["pairs"][mine]
        threshold[here], size[here] = _percentile(values, owner, ones, percentile)[0], len(values)
        blocks.append((here, _percentile(values, owner, weights, percentile)))
    known = place >= 0
    for i in np.unique(place[known]):
        mine = place == i
        table["threshold"][i], table["threshold_pairs"][i] = threshold[mine].mean(), size[mine].min()
    for name, which, of, *less in rates:
        counted = rows[of].to_numpy(bool) & known
        chosen = rows[which].to_numpy(bool) & counted
        shape = (len(images), len(index))
        below = np.zeros(shape, dtype=np.float32)
        np.add.at(below, (at["rows"][counted], place[counted]), 1)
        top = np.zeros((len(weights), len(index)))
        for here, drawn in blocks:
            mine = here[chosen[here]]
            top += _beyond(drift[mine], at["rows"][mine], place[mine], drawn, weights, len(index))
        bottom = weights @ below
        events = np.bincount(place[chosen & (drift > threshold)], minlength=len(index)).astype(float)
        for column in less:
            without = np.zeros(shape, dtype=np.float32)
            own = rows[column].to_numpy(bool) & counted
            np.add.at(without, (at["rows"][own], place[own]), 1)
            top, events = top - weights @ without, events - without.sum(axis=0)
        value = stats.divide(events, below.sum(axis=0))
        table[name] = value
        for i in range(len(index)):
            drawn = stats.divide(top[:, i], bottom[:, i])
            kind = "difference" if less else "rate"
            ends = intervals.of_draws(value[i], drawn, int((below[:, i] > 0).sum()), kind=kind)
            table[f"{name}_low"][i], table[f"{name}_high"][i] = ends
    return pd.DataFrame(table, index=index)


def _places(images: np.ndarray, column: pd.Series) -> np.ndarray:
    return np.searchsorted(images, column.to_numpy().astype(str))


def _percentile(values: np.ndarray, owner: np.ndarray, weights: np.ndarray, percentile: float) -> np.ndarray:
    """The percentile [draw] of values, each there as often as its image was drawn, interpolated as numpy does."""
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    found = np.full(len(weights), np.nan)
    step = max(1, 10_000_000 // max(len(values), 1))
    for start in range(0, len(weights), step):
        total = weights[start : start + step, owner].cumsum(axis=1)
        some = total[:, -1] > 0
        place = (total[some, -1:].astype(float) - 1) * percentile / 100
        low = np.floor(place)
        ends = [(total[some] <= at).sum(axis=1) for at in (low, np.minimum(low + 1, total[some, -1:] - 1))]
        share = (place - low)[:, 0]
        found[start : start + step][some] = values[ends[0]] * (1 - share) + values[ends[1]] * share
    return found


def _beyond(
    drift: np.ndarray, image: np.ndarray, place: np.ndarray, drawn: np.ndarray, weights: np.ndarray, groups: int
) -> np.ndarray:
    """How many drawn instances [draw, group] lie beyond each draw's threshold; those beyond all are summed at once."""
    least, most = (function(drawn) if np.isfinite(drawn).any() else np.nan for function in (np.nanmin, np.nanmax))
    always = np.zeros((weights.shape[1], groups), dtype=np.float32)
    np.add.at(always, (image[drift > most], place[drift > most]), 1)
    count = (weights @ always).astype(float)
    unsure = (drift > least) & (drift <= most)
    drift, image, place = drift[unsure], image[unsure], place[unsure]
    for group in np.unique(place):
        own = np.flatnonzero(place == group)
        for part in np.array_split(own, -(-len(own) // _BLOCK)):
            count[:, group] += ((drift[part] > drawn[:, None]) * weights[:, image[part]]).sum(axis=1)
    return count
