"""How often the kit's 95 % intervals hold the truth, by simulation: `python -m vfkit.workshop.coverage [--write]`.

Images are drawn again and again from a population whose value is known; the table says in how many per cent of the
draws the interval of `vfkit.metrics` holds it, of those in which one is given. `--write` puts the table into METHODS.
"""

import argparse
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from vfkit.metrics import stats
from vfkit.metrics.effects import effects
from vfkit.metrics.hidden import beyond_rates

IMAGES = (8, 12, 24, 50, 100, 200)
RATES = (0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.98)
MARKS = ("<!-- coverage: start -->", "<!-- coverage: end -->")


def rates(rng, n: int, p: float, icc: float, draws: int, most: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Events and instances [draw, image]: 1 to `most` instances an image, correlated within it by `icc`."""
    trials = rng.integers(1, most + 1, (draws, n))
    own = np.full((draws, n), p) if icc == 0 else rng.beta(p * (1 / icc - 1), (1 - p) * (1 / icc - 1), (draws, n))
    return rng.binomial(trials, own), trials


def rate_coverage(rng, n: int, p: float, icc: float, draws: int, most: int = 8) -> float:
    """Coverage of the interval of a rate `p`."""
    return _held(stats.rate, [*rates(rng, n, p, icc, draws, most)], p)


def uneven_coverage(rng, n: int, p: float, draws: int) -> float:
    """Coverage of the interval of a rate where images of one instance have events and most images of three have none,
    as overlays on questions of two and of four options: `p` and `p / 10`, one as often as the other."""
    trials = rng.choice([1, 3], (draws, n))
    events = rng.binomial(trials, np.where(trials == 1, p, p / 10))
    return _held(stats.rate, [events, trials], (p + 3 * p / 10) / 4)


def difference_coverage(rng, n: int, p: float, gap: float, draws: int) -> float:
    """Coverage of the interval of the difference of two rates, `p + gap` and `p`, of 8 instances each on one image."""
    icc, shared = 0.3, rng.random((draws, n))
    sides = []
    for own in (p + gap, p):
        # both sides of an image lean the same way
        lean = rng.beta(own * (1 / icc - 1), (1 - own) * (1 / icc - 1), 20_000)
        sides += [rng.binomial(8, np.quantile(lean, shared)), np.full((draws, n), 8)]
    return _held(stats.difference, sides, gap)


def mean_coverage(rng, n: int, shape: str, draws: int) -> float:
    """Coverage of the interval of a mean of one number per image: `normal`, `skewed` (exponential), `mostly 0`."""
    values = rng.normal(size=(draws, n)) + 1 if shape == "normal" else rng.exponential(size=(draws, n))
    kept = rng.random((draws, n)) < (0.3 if shape == "mostly 0" else 1)
    return _held(stats.mean, [values * kept], 0.3 if shape == "mostly 0" else 1.0)


def median_coverage(rng, n: int, draws: int, most: int = 8) -> float:
    """Coverage of the interval of a median over `most` numbers an image, correlated within it by 0.3."""
    values = np.sqrt(0.3) * rng.normal(size=(draws, n, 1)) + np.sqrt(0.7) * rng.normal(size=(draws, n, most))
    return _held(stats.median, [values], 0.0)


def correlation_coverage(rng, n: int, rho: float, icc: float, draws: int, most: int = 8) -> float:
    """Coverage of the interval of Spearman's correlation, of `most` rows an image correlated within it by `icc`."""
    most = most if icc else 1
    both = [np.sqrt(icc) * rng.normal(size=(draws, n, 1)) + np.sqrt(1 - icc) * rng.normal(size=(draws, n, most))
            for _ in range(2)]  # fmt: skip
    both[1] = rho * both[0] + np.sqrt(1 - rho**2) * both[1]
    return _held(stats.correlation, both, 6 / np.pi * np.arcsin(rho / 2))


def effect_coverage(rng, n: int, name: str, spread: float, draws: int) -> float:
    """Coverage of the interval of Cohen's `d`, or of the `percent` of a control: both are lognormal with one number per
    image and alike within it, the drift with this SD of its logarithm and a median of 37 % of the control's."""
    held, theirs = [], 0.3
    middle, other = np.exp(-1 + spread**2 / 2), np.exp(theirs**2 / 2)
    variance = [np.expm1(of**2) * mean**2 for of, mean in ((spread, middle), (theirs, other))]
    truth = {"d": (middle - other) / np.sqrt(np.mean(variance)), "percent": 100 * middle / other}[name]
    images = pd.Series(np.arange(n))
    for _ in range(draws):
        common, own = rng.normal(size=n), np.sqrt(0.5) * rng.normal(size=(2, n))
        drift = np.exp(-1 + spread * (np.sqrt(0.5) * common + own[0]))
        control = np.exp(theirs * (np.sqrt(0.5) * common + own[1]))
        row = effects(pd.Series(drift), images, pd.Series(control), images)
        held.append(row[f"{name}_low"] <= truth <= row[f"{name}_high"])
    return float(np.mean(held))


def hidden_coverage(rng, n: int, p: float, draws: int, most: int = 10, pairs: int = 5) -> float:
    """Coverage of the interval of a share of instances beyond the control's 5th percentile, both estimated from the
    same images."""
    held, names = [], np.array([f"{i:04d}" for i in range(n)], dtype=object)
    index = pd.MultiIndex.from_product([["f"]], names=["family"])
    for _ in range(draws):
        common = rng.normal(size=(2, n, 1))
        common[1] = 0.7 * common[0] + np.sqrt(0.51) * common[1]
        drift = np.sqrt(0.5) * (common[0] + rng.normal(size=(n, most)))
        control = np.sqrt(0.5) * (common[1] + rng.normal(size=(n, pairs)))
        shift = norm.ppf(0.05) - norm.ppf(1 - p)  # so that a share p lies beyond
        rows = pd.DataFrame({"image": np.repeat(names, most), "category": "", "drift": np.exp(drift + shift).ravel()})
        rows = rows.assign(one=True, family="f")
        table = pd.DataFrame({"image": np.repeat(names, pairs), "category": "", "drift": np.exp(control).ravel()})
        found = beyond_rates(rows, index, table.assign(sample=table.image), [("beyond", "one", "one")]).iloc[0]
        if found.beyond_low == found.beyond_low:
            held.append(found.beyond_low <= p <= found.beyond_high)
    return float(np.mean(held)) if held else np.nan


def coverage_table(draws: int = 2000, images=IMAGES, seed: int = 0) -> pd.DataFrame:
    """Coverage in per cent: one row per number and setting, one column per number of images."""
    settings: dict[str, tuple[Any, ...]] = {}
    for p in RATES:
        settings[f"rate {100 * p:.0f} %, one instance an image"] = (rate_coverage, p, 0.0, draws, 1)
        for icc in (0.0, 0.3, 0.9):
            settings[f"rate {100 * p:.0f} %, 1 to 8 instances, within-image correlation {icc}"] = (
                rate_coverage,
                p,
                icc,
                draws,
            )
    for p in (0.2, 0.5, 0.9):
        name = f"rate {100 * p:.0f} % at one instance an image, {10 * p:.0f} % at three"
        settings[name] = (uneven_coverage, p, draws)
    for p, gap in ((0.05, 0.0), (0.05, 0.1), (0.3, 0.0), (0.3, 0.3)):
        settings[f"difference of rates {100 * (p + gap):.0f} % and {100 * p:.0f} %"] = (
            difference_coverage,
            p,
            gap,
            draws,
        )
    for shape in ("normal", "skewed", "mostly 0"):
        settings[f"mean, {shape}"] = (mean_coverage, shape, draws)
    settings["median"] = (median_coverage, draws // 2)
    for rho in (0.0, 0.5, 0.9):
        for icc in (0.0, 0.3):
            settings[f"rank correlation {rho}, within-image correlation {icc}"] = (
                correlation_coverage,
                rho,
                icc,
                draws // 2,
            )
    for name in ("d", "percent"):
        for spread in (0.6, 1.0):
            called = "Cohen's d" if name == "d" else "per cent of control"
            settings[f"{called}, SD of log drift {spread}"] = (effect_coverage, name, spread, draws // 2)
    for p in (0.1, 0.4, 0.8):
        settings[f"share {100 * p:.0f} % beyond an estimated threshold"] = (hidden_coverage, p, draws // 8)
    rng = np.random.default_rng(seed)
    rows = [{"number": name} | {n: 100 * make(rng, n, *own) for n in images} for name, (make, *own) in settings.items()]
    return pd.DataFrame(rows)


def _held(make, columns: list[np.ndarray], truth: float) -> float:
    """Share of the draws with an interval in which it holds the truth, NaN where none has one; columns [draw, image]
    or [draw, image, row]."""
    shape = columns[0].shape
    draw, image = (np.broadcast_to(np.arange(shape[i]).reshape([-1 if j == i else 1 for j in range(len(shape))]), shape)
                   for i in (0, 1))  # fmt: skip
    found = make(*(column.ravel() for column in columns), image.ravel(), draw.ravel())
    found = found[found["low"].notna()]
    return float(((found["low"] <= truth) & (truth <= found["high"])).mean()) if len(found) else np.nan


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown, floats rounded to whole numbers, empty where there is none."""
    heads = [f"n = {name}" if isinstance(name, int) else str(name) for name in table.columns]
    rows = [
        [("" if v != v else f"{v:.0f}") if isinstance(v, float) else str(v) for v in row]
        for row in table.itertuples(index=False)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *rows])


def put(text: str, marks: tuple[str, str]) -> None:
    """Write a table between two marks of METHODS."""
    methods = Path(str(files("vfkit"))) / "METHODS.md"
    before, rest = methods.read_text(encoding="utf-8").split(marks[0])
    after = rest.split(marks[1])[1]
    methods.write_text(f"{before}{marks[0]}\n{text}\n{marks[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="put the table into METHODS")
    args = parser.parse_args()
    text = markdown(coverage_table(args.draws))
    print(text)
    if args.write:
        put(text, MARKS)
