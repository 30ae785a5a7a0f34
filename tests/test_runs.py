"""Several runs of one study: choices that share no sample, and tables over all of them."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfkit import metrics, paper
from vfkit.datasets import LOADERS, Rows, load_dataset
from vfkit.datasets.base import select
from vfkit.metrics import across_runs
from vfkit.sample import Sample
from vfkit.study import StudyConfig


def make(id, category="c"):
    return Sample(str(id), (b"x",), "which?", ("a", "b"), 0, category)


@pytest.fixture
def toy(monkeypatch):
    rows = Rows([make(i, category="rare" if i % 10 == 0 else "common") for i in range(200)])
    monkeypatch.setitem(LOADERS, "toy", lambda path=None: rows)


# --- the choices ------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 3))
def test_subsets_share_no_sample_and_are_stratified_alike(categories, runs, seed):
    samples = [make(i, category) for i, category in enumerate(categories)]
    n = len(samples) // runs
    if not n:
        return
    subsets = [select(samples, n, seed, subset) for subset in range(runs)]
    ids = [sample.id for subset in subsets for sample in subset]
    assert len(set(ids)) == len(ids) == runs * n
    for subset in subsets:
        given = Counter(sample.category for sample in subset)
        assert all(abs(given[name] - n * size / len(samples)) < 2 for name, size in Counter(categories).items())
    assert [s.id for s in subsets[0]] == [s.id for s in select(samples, n, seed)]
    assert [s.id for s in subsets[-1]] == [s.id for s in select(samples[::-1], n, seed, runs - 1)]
    with pytest.raises(ValueError, match=f"there are {len(samples)} samples in all"):
        select(samples, n, seed, len(samples) // n)


def test_a_subset_is_part_of_a_study(toy):
    configs = [StudyConfig(model="m", dataset="toy", n=50, subset=subset) for subset in range(4)]
    chosen = [{sample.id for sample in config.load_samples()} for config in configs]
    assert len(set.union(*chosen)) == 200
    assert len({config.load_samples().fingerprint for config in configs}) == 4
    assert [config.key_fields()["subset"] for config in configs] == [0, 1, 2, 3]
    assert chosen[1] == {sample.id for sample in load_dataset("toy", n=50, subset=1)}
    with pytest.raises(ValueError, match="subset 4 of 50 samples each"):
        StudyConfig(model="m", dataset="toy", n=50, subset=4).load_samples()
    with pytest.raises(ValueError, match="subset 1 of None"):
        load_dataset("toy", subset=1)
    for subset in (-1, 0.5):
        with pytest.raises(ValueError, match="subset"):
            load_dataset("toy", n=5, subset=subset)


# --- the tables -------------------------------------------------------------------------------------------------------


def table(rates, instances=(10, 20), families=("scale", "rotation")):
    low, high = np.array(rates) - 0.1, np.array(rates) + 0.1
    columns = {"family": families, "answer": "all", "instances": instances, "IFR": rates, "IFR_low": low}
    return pd.DataFrame(columns | {"IFR_high": high, "flag": True})


def test_rates_are_averaged_and_counts_summed():
    found = across_runs([table([0.1, 0.5]), table([0.2, 0.5], (30, 20)), table([0.6, 0.5], (10, 20))])
    assert list(found) == ["family", "answer", "flag", "runs", "instances", "IFR", "IFR_sd"]
    assert list(found.family) == ["scale", "rotation"] and list(found.runs) == [3, 3]
    assert list(found.instances) == [50, 60]
    assert found.IFR.tolist() == pytest.approx([0.3, 0.5])
    assert found.IFR_sd.tolist() == pytest.approx([0.264575, 0.0], abs=1e-6)


def test_rows_and_numbers_that_a_run_lacks():
    found = across_runs([table([0.1, np.nan]), table([0.3, 0.5]), table([0.8], (1,), ("scale_pad",))]).set_index(
        "family"
    )
    assert found.runs.to_dict() == {"scale": 2, "rotation": 2, "scale_pad": 1}
    assert found.IFR["scale"] == pytest.approx(0.2) and np.isnan(found.IFR["rotation"])
    assert found.IFR["scale_pad"] == 0.8 and np.isnan(found.IFR_sd["scale_pad"])


def test_numbers_may_tell_rows_apart():
    tables = [pd.DataFrame({"eps": [1.0, 2.0], "rate": [r, 2 * r]}) for r in (0.1, 0.3)]
    assert across_runs(tables, by=["eps"]).rate.tolist() == pytest.approx([0.2, 0.4])
    with pytest.raises(ValueError, match="do not tell the rows apart"):
        across_runs(tables)


def test_what_is_not_one_table_of_several_runs_is_refused():
    with pytest.raises(ValueError, match="no table"):
        across_runs([])
    with pytest.raises(ValueError, match="other columns"):
        across_runs([table([0.1, 0.2]), table([0.1, 0.2]).drop(columns="IFR")])
    with pytest.raises(ValueError, match="do not tell the rows apart"):
        across_runs([table([0.1, 0.2], families=("scale", "scale"))])


def test_real_tables_of_runs_stand_beside_the_published_mean_of_runs():
    def records(seed):
        rng = np.random.default_rng(seed)
        rows = [
            dict(sample_id=f"{seed}/{i}", image_id=f"{seed}/{i}", family=family, instance=family, applicable=True,
                 prediction=int(family != "base" and rng.random() < 0.5), tied=False)
            for i in range(20) for family in ("base", "scale", "rotation")
        ]  # fmt: skip
        return pd.DataFrame(rows)

    tables = [metrics.flip_table(records(seed)) for seed in range(4)]
    found = paper.beside(across_runs(tables), "qwen3vl_2b", runs=(0, 1, 2, 3)).set_index("family")
    mean = np.mean([each.set_index("family").IFR["scale"] for each in tables])
    assert found.IFR["scale"] == pytest.approx(mean) and found.samples["scale"] == 80
    assert 0 < found.IFR_published["scale"] < 1 and "mean of runs" in found.published_source["scale"]
