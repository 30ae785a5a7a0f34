"""Images prepared in threads while the model reads: the same records, counts and errors as chunk by chunk."""

import threading
import time

import pytest

from vfkit.study import StudyConfig, run_study, work, workers
from vfkit.study.store import BESIDE

FIELDS = dict(model="mini_qwen3vl", dataset="mini_seed", n=6, families=("pad_crop", "text_overlay"), chunk=1)


def parts(folder):
    files = [file for kind in ("records", *BESIDE) for file in folder.glob(f"{kind}/*.parquet")]
    return {file.relative_to(folder): file.read_bytes() for file in files}


def run(out, **fields):
    return run_study(StudyConfig(**FIELDS | dict(out=str(out), controls=1) | fields), progress=False)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    return run(tmp_path_factory.mktemp("ahead") / "0", probes=True, ahead=0)


@pytest.mark.parametrize("ahead", [1, 3])
def test_the_same_files_and_counts_however_many_chunks_are_prepared(in_order, tmp_path, ahead):
    run_ahead = run(tmp_path, probes=True, ahead=ahead)
    assert parts(run_ahead.folder) == parts(in_order.folder)
    assert run_ahead.manifest["counters"] == in_order.manifest["counters"]
    assert run_ahead.manifest["samples"] == in_order.manifest["samples"]


def test_the_same_files_where_layers_are_hooked_too(tmp_path):
    fields = dict(n=3, families=("text_overlay",), inside=("lens", "patching"), inside_layers=(0, 3))
    one, many = (run(tmp_path / str(ahead), ahead=ahead, **fields) for ahead in (0, 2))
    assert parts(one.folder) == parts(many.folder) and {"lens", "edits"} <= {
        part.parts[0] for part in parts(one.folder)
    }


def test_image_work_goes_on_while_the_model_reads(monkeypatch, tmp_path):
    """Each chunk waits, before its first reading, until another chunk is there too."""
    started, both = [], threading.Barrier(2, timeout=20)
    opened = work.open_images

    def meet(sample):
        started.append(threading.get_ident())
        if len(started) in (2, 3):  # the first chunk is read by itself, for the oracle
            both.wait()
        return opened(sample)

    monkeypatch.setattr(work, "open_images", meet)
    run(tmp_path, n=3, verify=1, ahead=1)
    assert len(set(started)) == 3


def test_an_error_ends_the_run_with_what_was_read_kept(monkeypatch, tmp_path):
    read, left = workers.work, [4]

    def until_it_fails(*args):
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("the device is gone")
        time.sleep(0.01)
        return read(*args)

    monkeypatch.setattr(workers, "work", until_it_fails)
    with pytest.raises(RuntimeError, match="the device is gone"):
        run(tmp_path, ahead=2)
    monkeypatch.setattr(workers, "work", read)
    resumed = run(tmp_path, ahead=2)
    whole = run(tmp_path / "whole", ahead=0)
    assert parts(resumed.folder) == parts(whole.folder)
