"""Rules that decide what a sentence may say of a comparison (METHODS 15).

Every finding of the kit draws on these and on nothing else:

- a difference is claimed only where its 95 % interval and an exact test, Holm-adjusted over the tests that the sentence
  draws on, lie on the same side of zero; the words follow the sign;
- two rates are called alike only where the 90 % interval of their difference lies within a stated share of their mean
  (two one-sided tests at 5 %);
- nothing is said of fewer than `FEWEST` images, nor where fewer than `EVENTFUL` images have any event: no exact test
  could reach p < 0.05, whatever happened;
- all else is undecided.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.metrics.intervals import FEWEST

ALPHA = 0.05
WIDE = 0.5  # width of the interval of a share, above which a sentence says that n is too small
MANY = 24  # images: with so many, it is not their number that an interval lacks
EVENTFUL = 6  # images: a two-sided sign-flip test of five has p = 0.0625 at best
UNDECIDED, FEW_IMAGES, FEW_EVENTS = "undecided", "too few images to tell", "too few flips to tell"
_EXACT, _DRAWS = 12, 1999  # images up to which all sign flips are counted; random ones beyond
_COLUMNS = ["samples", "images", "eventful", "first", "second", "difference", "difference_low", "difference_high"]
_COLUMNS += ["alike", "p"]


def sign_flips(moves, seed: int = 0) -> float:
    """Exact two-sided p of one number per image being centred on zero, against all flips of their signs.

    Beyond 12 images that are not zero 1,999 random flips, seeded, stand for all. NaN without images, 1 if all are zero.
    """
    moves = np.asarray(moves, dtype=float)
    moved = moves[np.abs(moves) > 1e-12]
    if not len(moves) or not len(moved):
        return 1.0 if len(moves) else np.nan
    if len(moved) <= _EXACT:
        signs = 1.0 - 2 * (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1)
        return float((np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9 * np.abs(moved).sum()).mean())
    signs = 1.0 - 2 * np.random.default_rng(seed).integers(0, 2, (_DRAWS, len(moved)), dtype=np.int8)
    beyond = (np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9 * np.abs(moved).sum()).sum()
    return float((beyond + 1) / (_DRAWS + 1))


def swaps(first, second, function, seed: int = 0) -> float:
    """Exact two-sided p of a function of sums being the same on both sides, against swapping sides within images.

    Args:
        first, second: sums [column, image] of the same images on either side.
        function: of one array of sums per column to an array of values.
    """
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    moved = np.flatnonzero((first != second).any(axis=0))
    if not first.shape[1] or not len(moved):
        return 1.0 if first.shape[1] else np.nan
    few = len(moved) <= _EXACT
    swapped = (
        np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        if few
        else np.random.default_rng(seed).integers(0, 2, (_DRAWS, len(moved)))
    ).astype(float)
    change = (first - second)[:, moved] @ swapped.T  # [column, draw]
    drawn = function(*(first.sum(axis=1)[:, None] - change)) - function(*(second.sum(axis=1)[:, None] + change))
    value = function(*first.sum(axis=1)) - function(*second.sum(axis=1))
    beyond = (np.abs(drawn) >= abs(value) - 1e-9).sum()
    return float(beyond / len(swapped)) if few else float((beyond + 1) / (_DRAWS + 1))


def contrast(
    first: pd.DataFrame,
    second: pd.DataFrame,
    events: str = "flip",
    trials: str = "one",
    on: str = "sample",
    cluster: str = "image",
    bound: float = 0.0,
) -> dict:
    """Two rates on the samples that both frames hold, with all that `decide` needs.

    Args:
        first, second: frames with `on`, `cluster`, `events` and `trials`; any number of rows a sample.
        bound: share of the mean of both rates within which they count as alike; 0 never does.

    Returns:
        `samples`, `images`, `eventful` (images with an event on either side), `first`, `second`, `difference` =
        first - second with its interval, `alike`, and `p` of the sign-flip test over images.
    """
    pair = [frame.groupby(on, sort=True)[[events, trials]].sum() for frame in (first, second)]
    common = pair[0].index.intersection(pair[1].index)
    if common.empty:
        return dict.fromkeys(_COLUMNS[:3], 0) | dict.fromkeys(_COLUMNS[3:-2], np.nan) | {"alike": False, "p": np.nan}
    image = first.drop_duplicates(on).set_index(on, drop=False).loc[common, cluster]
    image = image.fillna(image.index.to_series())
    columns = [frame.loc[common, name].astype(float) for frame in pair for name in (events, trials)]
    sums = pd.DataFrame(dict(enumerate(columns))).groupby(image.to_numpy()).sum()
    return of_images(*(sums[i] for i in range(4)), bound=bound) | {"samples": len(common)}


def of_images(events, trials, other_events, other_trials, bound: float = 0.0) -> dict:
    """As `contrast`, from the counts of each image on either side; `samples` are images here."""
    columns: list[Any] = [np.asarray(column, dtype=float) for column in (events, trials, other_events, other_trials)]
    image = np.arange(len(columns[0]))
    found = stats.difference(*columns, image).iloc[0] if len(image) else {}
    a, n, b, m = columns
    rates = [float(stats.divide(top.sum(), bottom.sum())) for top, bottom in ((a, n), (b, m))]
    pooled = stats.divide(a.sum() + b.sum(), n.sum() + m.sum())  # what both would be if they did not differ
    sides = [stats.divide(top - pooled * low, np.full(len(top), low.sum())) for top, low in ((a, n), (b, m))]
    alike = False
    if bound and len(image):
        within = [
            stats.of_sums(columns, _beyond(bound, sign), image, kind="difference", level=0.9).iloc[0]
            for sign in (-1, 1)
        ]
        alike = bool(within[0]["high"] < 0 and within[1]["low"] > 0)
    return {
        "samples": len(image),
        "images": int(min((n > 0).sum(), (m > 0).sum())),
        "eventful": int(((a > 0) | (b > 0)).sum()),
        "first": rates[0],
        "second": rates[1],
        "difference": rates[0] - rates[1],
        "difference_low": float(found.get("low", np.nan)),
        "difference_high": float(found.get("high", np.nan)),
        "alike": alike,
        "p": sign_flips(sides[0] - sides[1]) if np.isfinite(rates).all() else np.nan,
    }


def _beyond(bound: float, sign: int):
    """The difference of two rates plus or minus a share of their mean, as a function of the four sums."""

    def function(a, n, b, m):
        one, other = stats.divide(a, n), stats.divide(b, m)
        return one - other + sign * bound * (one + other) / 2

    return function


def decide(table: pd.DataFrame, words: Sequence[str], undecided: str = UNDECIDED) -> pd.DataFrame:
    """The table with `p_holm`, adjusted over its rows, and the `verdict` of each row.

    Args:
        table: one row per comparison, with `difference_low`, `difference_high`, `p`; where it has them, `images`,
            `eventful` and `alike` are heeded too.
        words: for first above second, first below second, and both alike.
    """
    table = table.assign(p_holm=stats.holm(table["p"]))
    return table.assign(verdict=[_word(row, words, undecided) for row in table.to_dict("records")])


def _word(row: dict, words: Sequence[str], undecided: str) -> str:
    if row.get("images", FEWEST) < FEWEST:
        return FEW_IMAGES
    if row.get("eventful", EVENTFUL) < EVENTFUL:
        return FEW_EVENTS
    if row.get("alike", False):
        return words[2]
    return {1: words[0], -1: words[1], 0: undecided}[side(row)]


def side(row, name: str = "difference", p: str = "p_holm", null: float = 0.0) -> int:
    """1 or -1 where interval (`<name>_low`, `<name>_high`) and test both lie on that side of `null`, else 0."""
    if not row[p] < ALPHA:
        return 0
    return int(row[f"{name}_low"] > null) - int(row[f"{name}_high"] < null)


def shown(row, name: str, scale: float = 100, digits: int = 1, unit: str = " %", signed: bool = False) -> str:
    """A value of a row with its interval for a sentence, such as `12.0 % [3.1, 25.0]`.

    Without an interval, or where that of a share (`scale` 100) is wider than `WIDE`, the words say that n is too small;
    of none or all the bound that matters is named.
    """
    value, low, high = (scale * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    form = f"{'+' if signed else ''}.{digits}f"
    if value != value:
        return "not available"
    if low != low:
        why = "no interval" if row.get("images", 0) >= MANY else "n too small for an interval"
        return f"{value:{form}}{unit} ({why})"
    ends = f"[{low:{form}}, {high:{form}}]"
    if scale != 100 or high - low <= 100 * WIDE:
        return f"{value:{form}}{unit} {ends}"
    if not signed and value in (0, 100):
        ends = f"at most {high:{form}}" if value == 0 else f"at least {low:{form}}"
    return f"{value:{form}}{unit} (n too small to tell: {ends})"
