"""The run folder: parts are whole or absent, and any damage costs only the chunks that it hit."""

import io
import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from vfkit.study import store


def record(sample, instance="base", **columns):
    row = dict(sample_id=sample, category="c", family="base", instance=instance, params="{}", applicable=True)
    row |= dict(reason="", answer=None, n_options=2, base_prediction=1, prediction=0, tied=False, margin=0.5)
    row |= dict(base_margin=-0.5, off_mass=0.0, logp_text=[-1.0, -2.0], logp_end=[-0.1, -0.2], n_tokens=[1, 2])
    return row | dict(logp_letter=[float("nan")] * 2, image_hash="h", image_id="h", width=4, height=3) | columns


def failure(sample, instance="base", stage="read"):
    return dict(sample_id=sample, instance=instance, stage=stage, error="ValueError", message="broken")


@pytest.fixture
def folder(tmp_path):
    """Three finished chunks: s1 and s2 are read, s3 has one failed instance, s4 failed as a whole."""
    store.write_part(tmp_path, ["s2", "s1"], [record("s2"), record("s1"), record("s1", "other")], errors=[])
    store.write_part(tmp_path, ["s3"], [record("s3")], errors=[failure("s3", "other")])
    store.write_part(tmp_path, ["s4"], [], errors=[failure("s4")])
    return tmp_path


def parts(folder, kind):
    return sorted((folder / kind).glob("part-*.parquet"))


def part_of(folder, kind, sample):
    return next(p for p in parts(folder, kind) if sample in pd.read_parquet(p)["sample_id"].tolist())


def test_rows_come_back_typed_and_ordered_by_sample(folder):
    records, errors = store.read(folder, "records"), store.read(folder, "errors")
    assert records[["sample_id", "instance"]].values.tolist() == [
        ["s1", "base"], ["s1", "other"], ["s2", "base"], ["s3", "base"],
    ]  # fmt: skip
    assert list(records.columns) == store.SCHEMAS["records"].names
    assert records["answer"].isna().all() and (records["prediction"] == 0).all()
    assert {str(records[name].dtype) for name in ("answer", "prediction", "width")} == {"Int64"}
    assert records["applicable"].dtype == bool and str(records["tied"].dtype) == "boolean"
    np.testing.assert_array_equal(records["logp_text"][0], [-1.0, -2.0])
    assert errors[["sample_id", "instance"]].values.tolist() == [["s3", "other"], ["s4", "base"]]


def test_an_empty_run_has_all_columns_and_no_rows(tmp_path):
    assert len(store.read(tmp_path, "records")) == len(store.read(tmp_path, "errors")) == 0
    assert list(store.read(tmp_path, "errors").columns) == ["sample_id", "instance", "stage", "error", "message"]


def test_recover_knows_what_is_finished_and_what_failed(folder):
    store.write_dataset_errors(folder, [failure("row", "", "dataset")])
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    assert store.recover(folder) == ({"s1", "s2", "s3", "s4"}, {"s4"}, 2)
    assert {path: path.read_bytes() for path in folder.rglob("*.parquet")} == before
    assert "row" in store.read(folder, "errors")["sample_id"].tolist()


def test_what_a_kill_leaves_behind_is_not_read_and_is_cleared(folder):
    errors = store.read(folder, "errors")
    orphan = folder / "errors" / "part-0123-4567.parquet"  # killed after the errors part, before the records part
    orphan.write_bytes(parts(folder, "errors")[0].read_bytes())
    leftovers = [folder / "records" / "part-0123-4567.parquet.tmp", folder / "run.json.tmp"]  # killed while writing
    for path in leftovers:
        path.write_bytes(b"half")
    foreign = folder / "tables" / "mine.tmp"
    foreign.parent.mkdir()
    foreign.write_bytes(b"")
    pd.testing.assert_frame_equal(store.read(folder, "errors"), errors)
    store.recover(folder)
    assert not orphan.exists() and not any(path.exists() for path in leftovers) and foreign.exists()


def flip_a_byte(path):
    """Change a byte such that the file still reads well but says something else."""
    good = path.read_bytes()
    for place in range(len(good)):
        bad = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        try:
            if not pq.read_table(io.BytesIO(bad)).equals(pq.read_table(path)):
                break
        except Exception:
            continue
    path.write_bytes(bad)


@pytest.mark.parametrize(
    "damage",
    [flip_a_byte, lambda p: os.truncate(p, 100), lambda p: os.truncate(p, 0), lambda p: p.write_bytes(b"PAR1")],
)
@pytest.mark.parametrize("kind", ["records", "errors"])
def test_a_damaged_part_is_set_aside_and_its_samples_are_open_again(folder, kind, damage):
    damaged = part_of(folder, kind, "s3")
    damage(damaged)
    with pytest.raises(OSError, match=damaged.name):
        store.read(folder, kind)
    with pytest.warns(UserWarning, match="set aside.*is not as it was written"):
        assert store.recover(folder).samples == {"s1", "s2", "s4"}
    assert damaged.with_name(f"{damaged.name}.corrupt").exists()
    assert "s3" not in {*store.read(folder, "records")["sample_id"], *store.read(folder, "errors")["sample_id"]}
    store.write_part(folder, ["s3"], [record("s3")], errors=[failure("s3", "other")])
    assert store.recover(folder) == ({"s1", "s2", "s3", "s4"}, {"s4"}, 2)


def test_deleting_the_errors_opens_the_failed_samples_again(folder):
    for part in parts(folder, "errors"):
        part.unlink()
    with pytest.warns(UserWarning, match="set aside"):
        assert store.recover(folder) == ({"s1", "s2"}, set(), 0)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    store.write_atomic(path, b"old")

    def full(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        store.write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_errors_are_written_before_the_records_that_finish_the_chunk(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(store.os, "replace", lambda a, b: order.append(b.parent.name))
    store.write_part(tmp_path, ["s4"], [], errors=[failure("s4")])
    assert order == ["errors", "records"]


def test_a_second_run_on_one_folder_is_refused(tmp_path):
    with store.lock(tmp_path / "run"):
        with pytest.raises(RuntimeError, match="another process"):
            with store.lock(tmp_path / "run"):
                pass
    with store.lock(tmp_path / "run"):
        pass
