"""Clustered intervals, paired differences and tests (vfkit.metrics.stats) on numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from vfkit.metrics import stats


def test_ratio_and_groups_by_hand():
    table = stats.ratio([1, 0, 2, 3], [1, 1, 2, 4], ["a", "a", "b", "b"], ["y", "y", "x", "y"])
    assert list(table.index) == ["y", "x"]  # in order of appearance
    assert table.loc["y", "value"] == pytest.approx(4 / 6)
    assert table.loc["x", "value"] == 1
    assert table["clusters"].to_list() == [2, 1]


def test_interval_degenerates_honestly():
    one = stats.ratio([1, 0, 1], [1, 1, 1], ["a", "a", "a"]).loc["all"]
    assert one["value"] == pytest.approx(2 / 3) and np.isnan(one["low"]) and np.isnan(one["high"])
    # one contributing image among many would be drawn or not, and look certain
    lone = stats.ratio([1, 0, 0], [2, 0, 0], ["a", "b", "c"]).loc["all"]
    assert lone["value"] == 0.5 and np.isnan(lone["low"])
    empty = stats.ratio([0, 0], [0, 0], ["a", "b"]).loc["all"]
    assert np.isnan(empty[["value", "low", "high"]].to_numpy(float)).all()
    assert stats.ratio([], [], []).empty
    same = stats.ratio([1, 1, 1], [1, 1, 1], ["a", "b", "c"]).loc["all"]
    assert same["low"] == same["value"] == same["high"] == 1
    with pytest.raises(ValueError, match="no number"):
        stats.ratio([1, np.nan], [1, 1], ["a", "b"])


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


def test_interval_covers_the_truth_as_often_as_it_says():
    """Images differ in flip rate and in number of rows; the mean of the rates is 0.3."""
    rng, hits, trials = np.random.default_rng(5), 0, 200
    for _ in range(trials):
        rates, sizes = rng.beta(0.6, 1.4, 60), rng.integers(1, 9, 60)
        flips = rng.binomial(sizes, rates)
        low, high = stats.ratio(flips, sizes, np.arange(60), n_boot=300).loc["all", ["low", "high"]]
        hits += low <= 0.3 <= high
    assert 0.88 <= hits / trials <= 0.98


def test_draws_depend_on_the_seed_alone(monkeypatch):
    rng = np.random.default_rng(0)
    data = rng.normal(size=50), np.arange(50) % 20
    first = stats.mean(*data, seed=3)
    monkeypatch.setattr(stats, "_BATCH", 100)  # other batches, same draws
    pd.testing.assert_frame_equal(first, stats.mean(*data, seed=3))
    assert first["low"]["all"] != stats.mean(*data, seed=4)["low"]["all"]


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
    assert same["difference"] == same["low"] == same["high"] == 0  # unpaired draws would spread
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


def test_a_median_and_its_interval_are_those_of_resampled_images():
    rng = np.random.default_rng(3)
    values, images = rng.normal(size=60), np.repeat(np.arange(12), 5)
    found = stats.median(np.append(values, np.nan), np.append(images, 99), n_boot=200).iloc[0]
    assert found.value == np.median(values) and found.clusters == 12
    draws = np.random.default_rng(0).integers(13, size=(200, 13))  # image 99 is drawn as well, and has no value
    medians = [np.median(np.concatenate([values[images == one] for one in drawn])) for drawn in draws]
    assert [found.low, found.high] == pytest.approx(np.quantile(medians, [0.025, 0.975]))
    groups = stats.median([1.0, 3.0, 2.0, 5.0], ["a", "b", "c", "c"], ["x", "x", "x", "y"])
    assert groups.value.to_dict() == {"x": 2.0, "y": 5.0} and np.isnan(groups.low["y"])


def test_a_difference_of_ratios_is_paired():
    top, bottom = np.array([1.0, 0, 2, 1]), np.array([2.0, 1, 2, 3])
    found = stats.difference(top, bottom, top - 0.1 * bottom, bottom, [1, 2, 3, 3])
    assert found.value.iloc[0] == pytest.approx(0.1)
    assert found.low.iloc[0] == pytest.approx(0.1) and found.high.iloc[0] == pytest.approx(0.1)
    missing = stats.difference(top, bottom, top, 0 * bottom, [1, 2, 3, 3]).iloc[0]
    assert np.isnan(missing[["value", "low", "high"]].astype(float)).all() and missing.clusters == 0
