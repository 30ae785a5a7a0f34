"""Clustered intervals, paired differences and tests (vfkit.metrics.stats) on numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, spearmanr

from vfkit.metrics import intervals, stats
from vfkit.workshop import coverage


def test_ratio_and_groups_by_hand():
    table = stats.ratio([1, 0, 2, 3], [1, 1, 2, 4], ["a", "a", "b", "b"], ["y", "y", "x", "y"])
    assert list(table.index) == ["y", "x"]  # in order of appearance
    assert table.loc["y", "value"] == pytest.approx(4 / 6)
    assert table.loc["x", "value"] == 1
    assert table["clusters"].to_list() == [2, 1]


def test_nothing_or_everything_has_an_exact_bound_by_images():
    for n in (5, 24, 500):
        none = stats.rate(np.zeros(3 * n), np.ones(3 * n), np.repeat(np.arange(n), 3)).loc["all"]
        assert (none["value"], none["low"], none["high"]) == (0, 0, pytest.approx(1 - 0.025 ** (1 / n)))
        every = stats.rate(np.ones(n), np.ones(n), np.arange(n)).loc["all"]
        assert (every["high"], every["low"]) == (1, pytest.approx(0.025 ** (1 / n)))
        same = stats.difference(*[np.ones(n)] * 4, np.arange(n)).loc["all"]  # no image differs
        assert same["value"] == 0 and same["high"] == -same["low"] == pytest.approx(1 - 0.025 ** (1 / n))
    one_in_24 = stats.rate(np.arange(24) == 0, np.ones(24), np.arange(24)).loc["all"]
    assert one_in_24["low"] < 1 / 24 < one_in_24["high"] <= beta.ppf(0.975, 2, 23) + 1e-9  # Clopper and Pearson


def test_too_few_images_have_no_interval():
    four, five = (stats.rate([0, 1] * n, [1] * 2 * n, np.repeat(np.arange(n), 2)).loc["all"] for n in (4, 5))
    assert np.isnan(four["low"]) and four["clusters"] == 4 and five["low"] < 0.5 < five["high"]
    # nine images, of which four count
    lone = stats.rate([1, 0, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0, 0], np.arange(9)).loc["all"]
    assert lone["value"] == 0.5 and lone["clusters"] == 4 and np.isnan(lone["low"])
    empty = stats.rate([0, 0], [0, 0], ["a", "b"]).loc["all"]
    assert np.isnan(empty[["value", "low", "high"]].to_numpy(float)).all()
    assert stats.rate([], [], []).empty
    with pytest.raises(ValueError, match="no number"):
        stats.rate([1, np.nan], [1, 1], ["a", "b"])
    with pytest.raises(ValueError, match="'guess' is none of rate"):
        stats.of_sums([[1], [1]], stats.divide, ["a"], kind="guess")


def test_rows_of_one_image_add_no_certainty():
    """Ten copies of each image's row say nothing new: the very same interval; as ten images they would narrow it."""
    rng = np.random.default_rng(1)
    flips, images = rng.integers(0, 2, 30), np.arange(30)
    once = stats.mean(flips, images)
    copies = stats.mean(np.repeat(flips, 10), np.repeat(images, 10))
    pd.testing.assert_frame_equal(once, copies)
    apart = stats.mean(np.repeat(flips, 10), np.arange(300))
    assert (apart["high"] - apart["low"])["all"] < 0.5 * (once["high"] - once["low"])["all"]


def test_mean_leaves_out_what_is_not_finite():
    table = stats.mean([1, np.nan, 3, np.inf], ["a", "b", "c", "d"])
    assert table.loc["all", "value"] == 2 and table.loc["all", "clusters"] == 2


@pytest.mark.parametrize("n", [8, 24, 100])
def test_intervals_hold_the_truth_as_often_as_they_say(n):
    """A small version of `python -m vfkit.workshop.coverage`, whose table is in METHODS."""
    rng = np.random.default_rng(n)
    found = [coverage.rate_coverage(rng, n, p, icc, 300) for p in (0.05, 0.2, 0.5) for icc in (0.0, 0.3, 0.9)]
    found += [coverage.uneven_coverage(rng, n, p, 300) for p in (0.2, 0.9)]
    found += [coverage.difference_coverage(rng, n, p, gap, 300) for p, gap in ((0.05, 0.1), (0.3, 0.0))]
    found += [coverage.mean_coverage(rng, n, shape, 300) for shape in ("normal", "skewed")]
    found += [coverage.correlation_coverage(rng, max(n, 12), rho, icc, 300) for rho in (0.0, 0.9) for icc in (0.0, 0.3)]
    found += [coverage.effect_coverage(rng, n, name, 0.6, 300) for name in ("d", "percent")]
    found += [coverage.median_coverage(rng, n, 300)]
    assert 0.94 <= np.mean(found) <= 0.99 and min(found) >= 0.905  # of 300 draws each


def test_an_interval_is_what_the_unit_says():
    """Ends of a rate stay in [0, 1], of a difference in [-1, 1], of a correlation in [-1, 1]; others do not care."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        events, images = rng.random(12) < rng.random(), np.arange(12)
        row = stats.rate(events, np.ones(12), images).loc["all"]
        assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1
        row = stats.difference(events, np.ones(12), rng.random(12) < 0.5, np.ones(12), images).loc["all"]
        assert -1 <= row["low"] <= row["value"] <= row["high"] <= 1
        x = rng.normal(size=12)
        row = stats.correlation(x, x + rng.normal(size=12) * rng.choice([0, 1]), images).loc["all"]
        assert -1 <= row["low"] <= row["value"] and row["low"] < row["high"] <= 1
    assert stats.mean([5.0] * 9, np.arange(9)).loc["all", ["low", "high"]].isna().all()  # equal numbers tell no spread
    assert stats.correlation(x[:11], x[:11] ** 3 + 1, images[:11]).loc["all", ["low", "high"]].isna().all()


def test_a_correlation_is_that_of_ranks_within_the_group():
    rng = np.random.default_rng(3)
    x, y, group = rng.normal(size=60), rng.normal(size=60), np.repeat(["a", "b"], 30)
    x[0] = np.nan
    found = stats.correlation(x, y, np.arange(60) % 20, group)
    for name in "ab":
        here = (group == name) & np.isfinite(x)
        assert found.loc[name, "value"] == pytest.approx(spearmanr(x[here], y[here]).statistic)
    assert np.isnan(stats.correlation(np.ones(9), y[:9], np.arange(9)).loc["all", "value"])  # one side never varies
    linear = stats.correlation(x[1:], np.exp(x[1:]), np.arange(59), ranked=False).loc["all", "value"]
    assert linear == pytest.approx(np.corrcoef(x[1:], np.exp(x[1:]))[0, 1]) and linear < 0.99


def test_a_rate_with_an_estimated_threshold_takes_its_spread_from_draws():
    rng = np.random.default_rng(1)
    draws = rng.binomial(40, 0.3, 2000) / 40  # forty images
    low, high = intervals.of_draws(0.3, draws, 40)
    plain = stats.rate(np.arange(40) < 12, np.ones(40), np.arange(40)).loc["all"]
    assert low == pytest.approx(plain["low"], abs=0.02) and high == pytest.approx(plain["high"], abs=0.02)
    assert intervals.of_draws(0.0, draws * 0, 40) == (0, pytest.approx(1 - 0.025 ** (1 / 40)))
    assert np.isnan(intervals.of_draws(0.3, draws, 4)).all()


def _frame(flips, samples, images=None):
    return pd.DataFrame({"sample_id": samples, "image_id": images or samples, "flip": flips, "one": 1.0})


def test_paired_difference():
    first = _frame([1, 0, 1, 1], ["s1", "s1", "s2", "s3"])
    second = _frame([0, 1, 1], ["s2", "s1", "s9"])  # s3 and s9 have no partner
    found = stats.paired_difference(first, second, "flip", "one")
    assert found["samples"] == 2
    assert (found["first"], found["second"]) == (pytest.approx(2 / 3), 0.5)
    assert found["difference"] == pytest.approx(2 / 3 - 0.5)

    rng = np.random.default_rng(2)
    flips = rng.integers(0, 2, 200)
    samples = [f"s{i}" for i in range(200)]
    same = stats.paired_difference(_frame(flips, samples), _frame(flips, samples), "flip", "one")
    assert same["difference"] == 0 and same["high"] == -same["low"] < 0.02  # unpaired, it would be 0.1
    one_image = (_frame(values, samples, ["i"] * 200) for values in (flips, 1 - flips))
    lone = stats.paired_difference(*one_image, "flip", "one")
    assert np.isnan(lone["low"]) and not np.isnan(lone["difference"])
    none = stats.paired_difference(first, _frame([1], ["s9"]), "flip", "one")
    assert none["samples"] == 0 and np.isnan(none["difference"])


def test_mcnemar_and_holm_by_hand():
    found = stats.mcnemar([1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 1])
    assert found == {"only_first": 5, "only_second": 0, "p": pytest.approx(2 * 0.5**5)}
    assert stats.mcnemar([True, False], [True, False])["p"] == 1
    assert np.isnan(stats.mcnemar([], [])["p"])
    with pytest.raises(ValueError, match="pairs"):
        stats.mcnemar([1], [1, 0])
    np.testing.assert_allclose(stats.holm([0.01, np.nan, 0.04, 0.03]), [0.03, np.nan, 0.06, 0.06])
    assert stats.holm([]).size == 0


def test_a_median_by_hand():
    values, images = np.arange(1.0, 42), np.arange(41)  # 41 images, one value each
    found = stats.median(np.append(values, np.nan), np.append(images, 99)).iloc[0]
    assert found.value == 21 and found.clusters == 41
    assert 14 <= found.low <= 16 and 26 <= found.high <= 28  # order statistics of the sign test: 15 and 27
    groups = stats.median([1.0, 3.0, 2.0, 5.0], ["a", "b", "c", "c"], ["x", "x", "x", "y"])
    assert groups.value.to_dict() == {"x": 2.0, "y": 5.0} and np.isnan(groups.low["y"])


def test_a_difference_of_rates_is_paired():
    rng = np.random.default_rng(4)
    first, images = rng.integers(0, 2, 50), np.arange(50)
    second = np.where(images < 47, first, 1 - first)  # all but three images agree
    found = stats.difference(first, np.ones(50), second, np.ones(50), images).iloc[0]
    alone = stats.rate(first, np.ones(50), images).iloc[0]
    assert found.high - found.low < (alone.high - alone.low)
    assert found.low <= (first - second).mean() <= found.high
    missing = stats.difference(first, np.ones(50), first, np.zeros(50), images).iloc[0]
    assert np.isnan(missing[["value", "low", "high"]].astype(float)).all() and missing.clusters == 0
