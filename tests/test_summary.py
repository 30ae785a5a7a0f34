"""The finding says what the tables say."""

import pandas as pd

from vfkit import metrics


def _row(sample: str, family: str, prediction: int, **more) -> dict:
    instance = f"{family}{more.pop('i', 0)}"
    row = dict(sample_id=sample, category="c", family=family, instance=instance, applicable=True, image_id=sample)
    row |= dict(
        answer=0, n_options=4, base_prediction=0, prediction=prediction, tied=False, margin=1.0, base_margin=1.0
    )
    return row | more


def _records() -> pd.DataFrame:
    rows = []
    for sample in ("a", "b", "c", "d"):
        rows += [_row(sample, "base", 0), _row(sample, "identity", 0)]
        rows += [_row(sample, "translation", int(sample == "a"), i=i) for i in range(2)]
        rows += [_row(sample, "rotation", int(sample in "ab"), i=i) for i in range(2)]
    return pd.DataFrame(rows)


def test_it_names_accuracy_flips_the_worst_family_and_the_floor():
    text = metrics.finding(_records(), "a model", "some data")
    assert "On 4 samples of some data, a model answers 100.0 %" in text
    assert "where chance is 25 %" in text
    assert "Of 16 changes meant to keep the meaning, 37.5 %" in text  # 2 + 4 of 16
    assert "What flips it most is rotation: 50.0 %" in text
    assert text.endswith("Reading the same pixels again flips 0.0 % (n too small for an interval): the noise floor.")
    assert "hidden" not in text


def test_where_nothing_was_read_it_says_so():
    assert "No sample of some data was read" in metrics.finding(_records().iloc[:0], "a model", "some data")


def test_it_is_silent_on_what_was_not_done():
    records = _records()
    hosted = records.assign(applicable=records.family != "identity")  # asked once about the same pixels
    assert "the same pixels" not in metrics.finding(hosted, "a model", "some data")
    text = metrics.finding(records[records.family == "base"], "a model", "some data")
    assert "flip" not in text
