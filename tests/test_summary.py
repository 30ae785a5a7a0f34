"""The finding says what the tables say."""

import re

import pandas as pd

from vfkit import metrics


def _row(sample: str, family: str, prediction: int, **more) -> dict:
    instance = f"{family}{more.pop('i', 0)}"
    row = dict(sample_id=sample, category="c", family=family, instance=instance, applicable=True, image_id=sample)
    row |= dict(
        answer=0, n_options=4, base_prediction=0, prediction=prediction, tied=False, margin=1.0, base_margin=1.0
    )
    return row | more


def _records(samples: str = "abcd") -> pd.DataFrame:
    rows = []
    for sample in samples:
        rows += [_row(sample, "base", 0), _row(sample, "identity", 0)]
        rows += [_row(sample, "translation", int(sample == "a"), i=i) for i in range(2)]
        rows += [_row(sample, "rotation", int(sample in "ab"), i=i) for i in range(2)]
    return pd.DataFrame(rows)


def test_it_names_accuracy_flips_the_worst_family_and_the_floor():
    text = metrics.finding(_records(), "a model", "some data")
    assert text.startswith(
        "- 100.0 % (n too small for an interval) of 4 samples of some data are answered rightly by a"
    )
    assert "where chance is 25 %" in text
    assert "- 37.5 % (n too small for an interval) of 16 changes meant to keep the meaning" in text  # 2 + 4 of 16
    assert text.endswith("- 0.0 % (n too small for an interval) flip where the same pixels are read again.")
    assert "hidden" not in text


def test_what_flips_most_is_said_of_five_images_or_more():
    few = metrics.finding(_records(), "a model", "some data")
    assert "What flips it most: too few images to tell." in few and "rotation" not in few
    text = metrics.finding(_records("abcde"), "a model", "some data")  # the interval is as wide as 5.3 to 85.3
    assert (
        "is not settled" in text and "- 40.0 % (n too small to tell: [5.3, 85.3]) under rotation and 20.0 % (" in text
    )
    both = pd.concat([_records("abcdef"), pd.DataFrame([_row(s, "scale", 1) for s in "abc"])])  # on three images only
    assert ") under rotation and" in metrics.finding(both, "a model", "some data")


def test_a_family_flips_most_where_it_beats_each_of_the_others():
    names = [f"s{i}" for i in range(40)]
    rows = [_row(name, "base", 0) for name in names]
    for family, flips in (("rotation", 30), ("translation", 8), ("scale", 7)):
        rows += [_row(name, family, int(i < flips)) for i, name in enumerate(names)]
    records = pd.DataFrame(rows)
    assert re.search(r"- 75.0 % \[[^]]*\] under rotation, which", metrics.finding(records, "a model", "some data"))
    rival = records.family == "translation"
    even = records.copy()
    even.loc[rival, "prediction"] = [int(i < 28) for i in range(40)]
    assert "- 75.0 % [" in metrics.finding(even, "a model", "some data")
    assert "not settled" in metrics.finding(even, "a model", "some data")


def test_hidden_instability_is_claimed_with_intervals_only():
    for n, claimed in ((4, False), (8, True)):
        records = _records("abcdefgh"[:n]).assign(cos_ctx_open_post_norm=0.2)
        names = sorted(set(records.sample_id))
        pairs = [(a, b) for a in names for b in names if a != b]
        controls = pd.DataFrame(pairs, columns=["sample_id", "partner_id"]).assign(cos_ctx_open_post_norm=0.5)
        controls["cos_ctx_open_post_norm"] += [0.01 * (i % 3) for i in range(len(controls))]
        controls["partner_image_id"] = controls.partner_id
        text = metrics.finding(records, "a model", "some data", controls=controls)
        assert ("hidden instability" in text) == ("moves 39 % [" in text) == claimed
        assert ("the state moves where the answer stays: too few images to tell." in text) != claimed


def test_where_nothing_was_read_it_says_so():
    assert "No sample of some data was read" in metrics.finding(_records().iloc[:0], "a model", "some data")


def test_it_is_silent_on_what_was_not_done():
    records = _records()
    hosted = records.assign(applicable=records.family != "identity")  # asked once about the same pixels
    assert "the same pixels" not in metrics.finding(hosted, "a model", "some data")
    text = metrics.finding(records[records.family == "base"], "a model", "some data")
    assert "flip" not in text
