"""How often a verdict on a published number is false, by simulation: `python -m vfkit.workshop.reproduction_rates`.

Both sides draw images from populations whose truth is known: the same one (a false verdict is `differs`), or one whose
number is off by twice the useful margin (a false verdict is `reproduced`). The published side knows as much of its own
uncertainty as papers say. `--write` puts the table into METHODS.
"""

import argparse

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.paper import compare, useful_margin
from vfkit.workshop.coverage import markdown, put, rates

MARKS = ("<!-- reproduction: start -->", "<!-- reproduction: end -->")
SIZES = (100, 350, 1000, 3500)  # images of ours
PUBLISHED, PROBED, ITEMS, RUNS = 3500, 600, 302, 4  # images of HI's runs and drift tables, items of VF, runs of HI


def rate_of_runs(rng, n: int, p: float, icc: float, draws: int, off: float = 0.0) -> pd.Series:
    """A flip rate with 1 to 8 instances an image; the published one knows its binomial SD and the SD over four runs."""
    events, trials = (side.reshape(draws, RUNS, PUBLISHED) for side in rates(rng, PUBLISHED, p, icc, draws * RUNS))
    runs = events.sum(axis=2) / trials.sum(axis=2)
    value = runs[:, 0]
    binomial = np.sqrt(value * (1 - value) / trials[:, 0].sum(axis=1))
    uncertainty = np.maximum(runs.std(axis=1, ddof=1), binomial)
    mine = stats.rate(*_rows(*rates(rng, n, p + off, icc, draws)))
    return _verdicts(mine, value, uncertainty, n, PUBLISHED, "IFR")


def rate_of_items(rng, n: int, p: float, icc: float, draws: int, off: float = 0.0) -> pd.Series:
    """An accuracy over VF's items, one answer each; the published one knows its binomial SD."""
    value = rng.binomial(ITEMS, p, draws) / ITEMS
    mine = stats.rate(*_rows(rng.binomial(1, p + off, (draws, n)), np.ones((draws, n), dtype=int)))
    return _verdicts(mine, value, np.sqrt(value * (1 - value) / ITEMS), n, ITEMS, "mAcc")


def mean_drift(rng, n: int, p: float, icc: float, draws: int, off: float = 0.0) -> pd.Series:
    """A mean of skewed distances, SD as large as the mean `p`; the published one states its SD over images."""
    theirs = rng.exponential(p, (draws, PROBED))
    mine = stats.mean(*_rows(rng.exponential(p + off, (draws, n))))
    uncertainty = theirs.std(axis=1, ddof=1) / np.sqrt(PROBED)
    return _verdicts(mine, theirs.mean(axis=1), uncertainty, n, PROBED, "drift")


WORLDS = {
    "IFR 6 %, within-image correlation 0.3": (rate_of_runs, 0.06, 0.3, "IFR"),
    "IFR 6 %, within-image correlation 0.9": (rate_of_runs, 0.06, 0.9, "IFR"),
    "IFR 19 %, within-image correlation 0.3": (rate_of_runs, 0.19, 0.3, "IFR"),
    "VF accuracy 75 %": (rate_of_items, 0.75, 0.0, "mAcc"),
    "VF accuracy 50 %": (rate_of_items, 0.5, 0.0, "mAcc"),
    "mean drift, as spread as it is large": (mean_drift, 0.1, 0.0, "drift"),
}


def reproduction_table(draws: int = 1000, seed: int = 0, sizes: tuple[int, ...] = SIZES) -> pd.DataFrame:
    """Per cent of draws, by world and images of ours: `differs` and `reproduced` where both sides have one truth, and
    `reproduced` where ours is off by twice the useful margin."""
    rng, rows = np.random.default_rng(seed), []
    for world, (make, p, icc, quantity) in WORLDS.items():
        off = 2 * useful_margin(p, quantity)
        for n in sizes:
            same, other = make(rng, n, p, icc, draws), make(rng, n, p, icc, draws, off)
            shares = {"same truth: differs": same == "differs", "same truth: reproduced": same == "reproduced"}
            shares["off by twice the useful margin: reproduced"] = other == "reproduced"
            rows.append({"world": world, "images": n} | {name: 100 * each.mean() for name, each in shares.items()})
    return pd.DataFrame(rows)


def _rows(*columns: np.ndarray) -> list:
    """Columns [draw, image] as rows, then each row's image and draw."""
    draws, n = columns[0].shape
    return [*(column.ravel() for column in columns), np.tile(np.arange(n), draws), np.repeat(np.arange(draws), n)]


def _verdicts(mine: pd.DataFrame, value, uncertainty, n: int, images: int, quantity: str) -> pd.Series:
    """The verdict of each draw."""
    errors = (mine["high"] - mine["low"]) / 3.92
    known = np.maximum(uncertainty, errors * np.sqrt(n / images))
    each = zip(mine["value"], errors, value, known, strict=True)
    return pd.Series([compare(ours, error, p, p, u, quantity)["verdict"] for ours, error, p, u in each])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="put the table into METHODS")
    args = parser.parse_args()
    text = markdown(reproduction_table(args.draws))
    print(text)
    if args.write:
        put(text, MARKS)
