"""The rules of the findings, and every verdict on records whose truth is known: null, floor, ceiling, few, and true."""

import json

import numpy as np
import pandas as pd
import pytest

from vfkit import metrics
from vfkit.metrics import rules
from vfkit.workshop import verdict_rates, worlds

WORDS = ("more", "less", "alike")


def decided(*rows, **more) -> list[str]:
    return rules.decide(pd.DataFrame([rules.of_images(*row, **more) for row in rows]), WORDS).verdict.tolist()


# --- the rules --------------------------------------------------------------------------------------------------------


def test_sign_flips_count_all_flips_of_few_and_a_sample_of_many():
    assert rules.sign_flips([1, 1, 1, 1, 1]) == 2 / 2**5 and rules.sign_flips([1, -1, 2, -2]) == 1
    assert rules.sign_flips([0, 0]) == 1 and np.isnan(rules.sign_flips([]))
    assert rules.sign_flips([3, 1, 0, 0, 0]) == rules.sign_flips([3, 1])  # images that do not differ say nothing
    many = np.random.default_rng(0).normal(0.6, 1, 60)
    assert rules.sign_flips(many) < 0.01 and rules.sign_flips(many) == rules.sign_flips(many)
    null = [rules.sign_flips(np.random.default_rng(i).normal(size=20)) for i in range(200)]
    assert 0.02 <= np.mean(np.array(null) < 0.05) <= 0.09


def test_swapping_sides_tests_any_function_of_sums():
    rng = np.random.default_rng(1)
    one = np.ones((1, 40))

    def share(a, n):
        return a / n

    first, second = (np.concatenate([rng.binomial(6, p, (1, 40)), 6 * one]) for p in (0.6, 0.3))
    assert rules.swaps(first, second, share) < 0.01 and rules.swaps(first, first, share) == 1
    small = np.concatenate([[[1, 1, 1, 1, 1, 1, 0]], np.ones((1, 7))])
    assert rules.swaps(small, small * [[0], [1]], share) == 2 / 2**6


def test_nothing_is_claimed_of_few_images_few_flips_or_overlapping_ends():
    n = np.full(200, 6)
    some = np.zeros(200)
    some[:3] = 1
    assert decided((some, n, 0 * n, n), bound=0.25) == ["too few flips to tell"]  # 3 of 1,200: not "alike"
    assert decided((n[:4], n[:4], 0 * n[:4], n[:4])) == ["too few images to tell"]
    rng = np.random.default_rng(0)
    half = rng.binomial(6, 0.5, 200)
    assert decided((half, n, rng.binomial(6, 0.5, 200), n), bound=0.25) == ["alike"]
    assert decided((half, n, rng.binomial(6, 0.5, 200), n)) == ["undecided"]  # without a bound nothing is alike
    assert decided((half, n, half // 3, n), (half // 3, n, half, n)) == ["more", "less"]


def test_interval_and_test_must_agree_after_holm():
    row = {"difference_low": 0.01, "difference_high": 0.3, "p": 0.03}
    assert rules.decide(pd.DataFrame([row]), WORDS).verdict[0] == "more"
    assert rules.decide(pd.DataFrame([row] * 2), WORDS).verdict.tolist() == ["undecided"] * 2  # two tests: 0.06
    assert rules.decide(pd.DataFrame([row | {"difference_low": -0.01}]), WORDS).verdict[0] == "undecided"
    assert rules.decide(pd.DataFrame([row | {"difference_low": np.nan}]), WORDS).verdict[0] == "undecided"


def test_a_value_is_shown_with_its_interval_or_with_what_is_missing():
    row = {"x": 0.5, "x_low": 0.25, "x_high": 0.75}
    assert rules.shown(row, "x") == "50.0 % [25.0, 75.0]"
    assert rules.shown(row, "x", 1, 2, "", signed=True) == "+0.50 [+0.25, +0.75]"
    assert rules.shown(row | {"x_low": 0.2}, "x") == "50.0 % (n too small to tell: [20.0, 75.0])"
    assert rules.shown({"x": 0, "x_low": 0, "x_high": 0.52}, "x") == "0.0 % (n too small to tell: at most 52.0)"
    assert rules.shown({"x": 1, "x_low": 0.4, "x_high": 1}, "x") == "100.0 % (n too small to tell: at least 40.0)"
    assert rules.shown(row | {"x_low": np.nan}, "x") == "50.0 % (n too small for an interval)"
    assert rules.shown({"x": np.nan, "x_low": 0, "x_high": 0}, "x") == "not available"


def test_a_contrast_pairs_by_sample_and_counts_by_image():
    first = pd.DataFrame({"sample": list("abcd"), "image": ["i", "i", "j", None], "flip": [1, 0, 1, 1], "one": 1.0})
    second = pd.DataFrame({"sample": list("dcba"), "image": "elsewhere", "flip": [0, 0, 0, 1], "one": 1.0})
    found = rules.contrast(first, second)
    assert (found["samples"], found["images"], found["eventful"]) == (4, 3, 3)
    assert (found["first"], found["second"], found["difference"]) == (0.75, 0.25, 0.5)
    assert rules.contrast(first, second.assign(sample="x"))["images"] == 0


# --- verdicts on worlds of known truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(verdict_rates.WORLDS))
def test_verdicts_are_seldom_false(name):
    """A small version of `python -m vfkit.workshop.verdict_rates`."""
    assert verdict_rates.false_rate(name, 8) <= 0.3  # 2 of 8, where 1 in 20 is allowed


@pytest.mark.parametrize("name", list(verdict_rates.LADDERS))
def test_true_alternatives_are_found(name):
    effect, share = verdict_rates.power(name, 5, last=True)
    assert share >= (0.0 if "selection" in name else 0.6), effect


def test_floor_and_ceiling_say_so():
    for rate in (0.0, 1.0):
        table = metrics.band_test(worlds.noise_records(np.random.default_rng(0), 24, rate, rate))
        word = "too few flips to tell" if rate == 0 else "H2: alike"
        assert table.verdict[table.headline].tolist() == [word]
    assert "1 too few flips to tell" in metrics.band_finding(
        metrics.band_test(worlds.noise_records(np.random.default_rng(0), 24, 0.0, 0.0))
    )


def test_three_tests_that_contradict_each_other_are_said_to():
    rng = np.random.default_rng(2)
    records = worlds.noise_records(rng, 40, 0.5, 0.1)
    records = pd.concat([records, worlds.ablation_records(rng, 40, 0.1, 0.6)], ignore_index=True)
    table = metrics.band_test(records)
    assert table.verdict[table.headline].tolist() == ["H1: low flips more", "high flips more"]
    assert "contradict each other" in metrics.band_finding(table)
    only = metrics.band_test(worlds.noise_records(rng, 40, 0.5, 0.1))
    assert "low-frequency dominance (H1), by noise of equal RMS" in metrics.band_finding(only)
    assert json.loads(records.params.iloc[-1])["cutoff"] == 0.25


def test_an_interval_that_many_images_lack_is_not_for_want_of_images():
    row = {"x": 0.5, "x_low": np.nan, "x_high": np.nan}
    assert rules.shown(row | {"images": 500}, "x") == "50.0 % (no interval)"
    assert rules.shown(row | {"images": 4}, "x") == rules.shown(row, "x") == "50.0 % (n too small for an interval)"
