"""Two runs side by side. The model is the stub of `test_study`."""

import pytest
import test_study
from test_study import again, run, settings

import vfkit
from vfkit.study import provenance
from vfkit.study.compare import Comparison


@pytest.fixture
def stub(monkeypatch):
    return test_study.Stub().install(monkeypatch.setitem)


def test_a_run_made_again_agrees_exactly(stub, tmp_path):
    found = vfkit.compare_runs(run(settings(tmp_path / "a")), run(settings(tmp_path / "b", chunk=3)))
    assert found.agree() and found.only.empty and found.flips.empty
    assert set(found.made.what) == {"config.out", "config.chunk"}
    assert found.records.n.unique().tolist() == [found.records.n[0]] and not found.records.differ.any()
    assert "records agree exactly" in str(found)


def test_runs_that_share_no_row_agree_in_nothing(stub, tmp_path):
    one = run(settings(tmp_path / "a", n=3, seed=1))
    found = vfkit.compare_runs(one, run(settings(tmp_path / "b", n=3, seed=1)))
    assert found.agree()
    nothing = Comparison(found.made, found.records.assign(n=0), found.flips, found.only)
    assert not nothing.agree() and "nothing was compared" in str(nothing)


def test_what_differs_is_named_and_how_much_of_it(stub, tmp_path):
    one = run(settings(tmp_path))
    other = run(settings(tmp_path, rule="text"))
    found = vfkit.compare_runs(one.folder, str(other.folder))
    assert set(found.made.what) == {"config.rule"}
    columns = found.records.set_index("column")
    assert columns.differ["margin"] > 0 and columns.max_difference["margin"] > 0 and not found.agree()
    both = one.records().merge(other.records(), on=["sample_id", "instance"], suffixes=("_a", "_b"))
    assert columns.max_difference["margin"] == (both.margin_a - both.margin_b).abs().max()
    assert not columns.differ[["logp_text", "logp_end", "n_tokens", "image_hash"]].any()
    assert found.agree(tolerance=1e9) is False  # predictions differ, whatever the numbers
    assert len(found.flips) and (found.flips.prediction_a.notna()).all()
    flipped = (both.prediction_a != both.base_prediction_a) != (both.prediction_b != both.base_prediction_b)
    changed = flipped | (both.prediction_a != both.prediction_b)
    assert len(found.flips) == changed.fillna(False).sum()


def test_rows_of_one_run_alone_and_texts_and_missing_values(stub, tmp_path):
    one = run(settings(tmp_path))
    stub.fail = lambda sample, images: ValueError("no") if sample.id == "toy/2" else None
    other = run(again(one.config, dataset_options={"size": 11}, families=["identity", "scale"]))
    found = vfkit.compare_runs(other, one)
    assert set(found.only.run) == {"b"} and "toy/2" in set(found.only.sample_id)
    assert not found.agree() and "only in b" in str(found)


def test_a_run_says_how_it_was_made(stub, tmp_path):
    manifest = run(settings(tmp_path, seed=3)).manifest
    assert manifest["seeds"] == {"samples": 3} and manifest["config"]["seed"] == 3
    assert manifest["machine"]["cores"] >= 1 and set(provenance.PACKAGES) < set(manifest["versions"])
    (reader,) = manifest["readers"]
    assert reader["device"].startswith("cpu: ")
    assert manifest["commit"] is None or set(manifest["commit"]) == {"commit", "changed"}


def test_who_read_is_told_of_a_real_model(vlm):
    reader = provenance.reader(vlm)
    assert reader["dtype"] == "float32" and reader["attention"] == "sdpa" and reader["device"].startswith("cpu")
    assert reader["processor"].endswith("ImageProcessor") and reader["processor_backend"] == "torchvision"


def test_the_commit_is_the_repositorys(tmp_path, monkeypatch):
    monkeypatch.setattr(vfkit, "__file__", str(tmp_path / "__init__.py"))
    assert provenance.commit() is None
