"""Every table takes what users have: rows in any order, frames read back from parquet, none, and leaves them alone."""

import inspect

import numpy as np
import pandas as pd
import pytest
from stored import PERTURBATION, TABLES, frame

from vfkit import metrics

# the order of the rows is the order of the table's rows, or nothing of the kind
IN_ORDER = {"rescore", "across_runs", "shared_samples", "vfat_correlations", "pope_answers"}
IN_ORDER |= {"confidence_rows", "prior_rows", "radius_rows"}
MADE_OF_SUMMARIES = {"across_runs", "vfat_correlations"}  # of tables, which are never empty
NEEDS_ROWS = {"verdict_table", "prior_drift_table", "embedding_table", "vfat_drift", "rank_agreement", "by_model"}
NEEDS_ROWS |= {"scale_summary", "scale_differences", "control_distances", "band_test"}
NEEDS_ROWS |= {"reliance_table", "corrected_flip_table", "prior_rows"}


def _make(name):
    function, taken = TABLES[name]
    if name == "embedding_table":  # stored runs keep base vectors only: a few moved ones are made up
        records, base = taken
        ids = base.sample_id.unique()[:4]
        moved = base[base.sample_id.isin(ids)].assign(instance="rotation_+30")
        moved["vector"] = [np.roll(vector, 1) for vector in moved.vector]
        taken = [records, pd.concat([base, moved], ignore_index=True)]
    return function, taken


def _same(ours, theirs):
    pair = (ours, theirs) if isinstance(ours, pd.DataFrame) else (ours[0], theirs[0])
    pd.testing.assert_frame_equal(*(one.reset_index(drop=True) for one in pair), check_dtype=False, rtol=1e-9)


def _shuffled(table, seed):
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


@pytest.mark.parametrize("name", TABLES)
def test_the_input_is_not_modified_and_its_order_does_not_matter(name):
    function, taken = _make(name)
    before = [table.copy(deep=True) for table in taken]
    made = function(*taken)
    for table, copy in zip(taken, before, strict=True):
        pd.testing.assert_frame_equal(table, copy)
    if name not in IN_ORDER:
        # the models of a series stay in their order: that is what the table says of them
        other = [
            table if "params" in table and "series" in table else _shuffled(table, i) for i, table in enumerate(taken)
        ]
        _same(function(*other), made)


@pytest.mark.parametrize("name", TABLES)
def test_frames_read_back_make_the_same_table(name, tmp_path):
    function, taken = _make(name)
    made, read = function(*taken), []
    for i, table in enumerate(taken):
        if "meta" in table or name == "across_runs":  # dicts are not what parquet holds
            read.append(table)
            continue
        table.to_parquet(tmp_path / f"{i}.parquet")
        back = pd.read_parquet(tmp_path / f"{i}.parquet")
        read.append(back.convert_dtypes() if "logp_text" not in back else back)  # nullable types, too
    _same(function(*read), made)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in MADE_OF_SUMMARIES])
def test_no_rows_make_an_empty_table_or_a_clear_error(name):
    function, taken = _make(name)
    empty = [table[:0] for table in taken]
    try:
        made = function(*empty)
    except ValueError as error:
        assert name in NEEDS_ROWS and str(error), error
        return
    made = made[0] if isinstance(made, tuple) else made
    counts = [name for name in ("instances", "samples", "n", "questions") if name in made]
    assert made.empty or not made[counts].to_numpy().any()


def test_all_tables_are_among_them():
    frames = {
        name
        for name in metrics.__all__
        if callable(function := getattr(metrics, name))
        and str(inspect.signature(function).return_annotation).find("DataFrame") >= 0
        and name != "vfat_answers_of"  # takes runs, not frames
    }
    assert frames - set(TABLES) == set()


def test_kept_is_the_answer_to_the_probes_own_prompt():
    """Of one instance only the open text changes, of another only the option: each probe sees its own."""
    records = frame(PERTURBATION, "records")
    sample = records.sample_id.iloc[0]
    own = (records.sample_id == sample) & records.family.isin(["base", "scale", "identity"])
    rows = records[own].copy()
    base = rows[rows.family == "base"].iloc[0]
    rows["text_open"], rows["text_mcq"], rows["prediction"] = "A red  Ball.", "A", base.prediction
    rows.loc[rows.family == "scale", "text_open"] = "a red ball"  # another spelling of the same words
    rows.loc[rows.family == "identity", "prediction"] = (base.prediction + 1) % 4
    table = metrics.drift_summary(rows, probes=["ctx_open", "ctx_mcq"], taps=["post_norm"], distances=["cos"])
    kept = table[table.answer == "kept"].set_index(["probe", "family"])["instances"]
    assert kept[("ctx_open", "scale")] == kept[("ctx_open", "identity")] == kept[("ctx_mcq", "scale")] == 1
    assert kept[("ctx_mcq", "identity")] == 0
    assert set(table.kept_by[table.probe == "ctx_open"]) == {"open text"}
    rows.loc[rows.family == "scale", "text_open"] = "a blue ball"
    table = metrics.drift_summary(rows, probes=["ctx_open", "ctx_mcq"], taps=["post_norm"], distances=["cos"])
    kept = table[table.answer == "kept"].set_index(["probe", "family"])["instances"]
    assert kept[("ctx_open", "scale")] == 0 and kept[("ctx_mcq", "scale")] == 1
    without = metrics.drift_table(rows.drop(columns=["text_open", "text_mcq"]), probe="ctx_open")
    assert set(without.kept_by) == {"option"}
