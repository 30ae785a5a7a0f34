"""What befalls a run from outside: full disks, folders that cannot be written, a second run, Ctrl-C.

Kills at any moment are in `test_study` and, on Ray, in `test_cluster`; `survival.py` does as many as one likes.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import test_study
from test_study import again, assert_same_records, run, settings

from vfkit.study import open_run, store

HERE = Path(__file__).parent
RUN = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import test_study
from pathlib import Path
stub = test_study.Stub().install(lambda d, k, v: d.__setitem__(k, v))
here, what = Path(sys.argv[2]), sys.argv[3]

def before_read():
    if what == "interrupt" and len(stub.calls) == 5:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        os.kill(os.getpid(), signal.SIGINT)
    if what == "wait":
        (here / "running").touch()
        while not (here / "go").exists():
            time.sleep(0.02)

stub.before_read = before_read
test_study.run(test_study.settings(here / "out", chunk=2))
"""


@pytest.fixture
def stub(monkeypatch):
    return test_study.Stub().install(monkeypatch.setitem)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path / "out", chunk=2)


@pytest.fixture
def whole(stub, tmp_path):
    return run(settings(tmp_path / "whole"))


def start(tmp_path, what):
    command = [sys.executable, "-c", RUN, str(HERE), str(tmp_path), what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("moment", [0, 3, 4, 9, 15, 22])
def test_a_disk_that_fills_at_any_moment_costs_what_was_not_finished(stub, whole, config, monkeypatch, capsys, moment):
    written, fsync = 0, os.fsync

    def full(descriptor):
        nonlocal written
        written += 1
        if written > moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device, while writing: .*(part-|run.json)") as caught:
        run(config)
    assert caught.value.errno == errno.ENOSPC and not list(Path(config.out).rglob("*.tmp"))
    monkeypatch.setattr(store.os, "fsync", fsync)
    assert_same_records(run(config), whole)


@pytest.fixture
def as_nobody():
    """A folder, and a switch to a user who may not write what others made."""
    if os.geteuid() != 0:
        place = Path(tempfile.mkdtemp())
        yield place, lambda: None
    else:
        place = Path(tempfile.mkdtemp())
        place.chmod(0o755)
        yield place, lambda: os.seteuid(65534)
        os.seteuid(0)
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(place)


def forbid(place):
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_a_finished_run_in_a_folder_that_cannot_be_written_is_read_as_it_is(stub, as_nobody):
    place, become_nobody = as_nobody
    finished = run(settings(place))
    forbid(place)
    become_nobody()
    stub.calls.clear()
    assert_same_records(run(settings(place)), finished)
    assert not stub.calls


def test_an_unfinished_run_in_a_folder_that_cannot_be_written_is_refused(stub, as_nobody):
    place, become_nobody = as_nobody
    stub.disagree = True
    with pytest.raises(test_study.VerifyError):
        run(settings(place))
    forbid(place)
    become_nobody()
    for out in (place, place / "new"):
        with pytest.raises(PermissionError, match="cannot be written .*; give another `out`"):
            run(settings(out))


def test_a_file_in_the_place_of_the_folder_is_named(stub, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError, match="file.* cannot be written .*; give another `out`"):
        run(settings(tmp_path / "file"))


def test_of_two_runs_started_on_one_folder_the_second_is_refused_and_the_first_goes_on(whole, config, tmp_path):
    first = start(tmp_path, "wait")
    while not (tmp_path / "running").exists():
        assert first.poll() is None, first.stderr.read()
    second = start(tmp_path, "")
    said = second.communicate()[1]
    assert second.returncode == 1 and "another process is running this study" in said
    (tmp_path / "go").touch()
    first.communicate()
    assert first.returncode == 0
    assert_same_records(open_run(next(Path(config.out).rglob("run.json")).parent), whole)


def test_ctrl_c_keeps_what_is_finished_and_says_so(whole, config, tmp_path):
    process = start(tmp_path, "interrupt")
    out, _ = process.communicate()
    assert process.returncode in (-signal.SIGINT, 1, 130)
    assert re.search("Stopped after [1-9] of 11 samples, which are kept", out)
    resumed = run(again(config, chunk=5))
    assert_same_records(resumed, whole)


def test_parts_that_a_worker_wrote_and_nobody_adopted_are_not_records(stub, config, whole):
    """A run killed on a cluster leaves workers behind that write on for a moment."""
    finished = run(config)
    folder = finished.folder
    shutil.copytree(folder / "records", store.staging(folder, "left") / "records")
    assert_same_records(finished, whole)
    part = next((folder / "records").iterdir())
    part.unlink()
    assert_same_records(run(config), whole)
    assert not (folder / store.STAGED).exists()
