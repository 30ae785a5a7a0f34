"""Ray: the same records by workers in other processes, whoever dies. The model is the stub of `test_study`."""

import os
import signal
import sys
from pathlib import Path

import pandas as pd
import pytest
import test_study
from test_study import again, assert_same_records, run, settings, some_failures

from vfkit.datasets import LOADERS, Rows
from vfkit.sample import Sample
from vfkit.study import execute, key, store
from vfkit.study import workers as pool

HERE = str(Path(__file__).parent)


class Stubbed(pool.Remote):
    """A worker that first puts the stub in place of models, and dies or fails where the test says so."""

    def work(self, *args):
        if self.vlm is None:
            install(Path(os.environ["VFKIT_TEST_ORDERS"]))
        return super().work(*args)


def install(orders):
    model = test_study.Stub().install(lambda d, key, value: d.__setitem__(key, value))

    def fail(sample, images):
        if (orders / "failures").exists():
            return some_failures(sample, images)

    def obey():
        for order in sorted(orders.glob("die-*")):
            order.unlink(missing_ok=True)  # carried out once, by whoever comes first
            os.kill(os.getpid(), signal.SIGKILL)
        if (orders / "always").exists():
            os.kill(os.getpid(), signal.SIGKILL)

    model.before_read, model.fail, model.disagree = obey, fail, (orders / "disagree").exists()


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """A local Ray for two workers, and the folder through which tests tell workers to fail."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'vfkit[ray]'")
    folder = tmp_path_factory.mktemp("orders")
    workers = {"VFKIT_TEST_ORDERS": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    workers["PYTHONPATH"] = os.pathsep.join([str(Path(HERE).parent), HERE, os.environ.get("PYTHONPATH", "")])
    workers["RAY_worker_niceness"] = "0"  # else they give way to all other processes
    with pytest.MonkeyPatch.context() as patch:
        for name, value in workers.items():
            patch.setenv(name, value)
        for attempt in range(4):  # on a busy machine Ray's own processes may take longer than it waits for them
            try:
                ray.init(
                    address="local", num_cpus=2, num_gpus=0, include_dashboard=False,
                    object_store_memory=80 * 2**20, log_to_driver=False, logging_level="error",
                )  # fmt: skip
                break
            except Exception as error:
                ray.shutdown()
                if attempt == 3 or "timed out during startup" not in str(error):
                    raise
        yield folder
        ray.shutdown()


@pytest.fixture
def stub(monkeypatch):
    return test_study.Stub().install(monkeypatch.setitem)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path)


@pytest.fixture
def order(orders, monkeypatch):
    monkeypatch.setattr(pool, "Remote", Stubbed)
    for each in orders.iterdir():
        each.unlink()
    return lambda name: (orders / name).write_text("")


def on_ray(config, **fields):
    return again(config, **dict(engine="ray", workers=2, chunk=2) | fields)


def test_two_workers_make_the_records_that_one_process_makes(stub, config, tmp_path, order):
    order("failures")
    stub.fail = some_failures
    whole = run(again(config, out=str(tmp_path / "whole")))
    done = run(on_ray(config))
    assert_same_records(done, whole)
    pd.testing.assert_frame_equal(done.errors(), whole.errors())
    assert done.folder.name == whole.folder.name and stub.loads == 1  # the driver of a cluster loads none
    assert done.manifest["counters"] == whole.manifest["counters"] and done.manifest["finished"]
    assert not (done.folder / store.STAGED).exists() or not list((done.folder / store.STAGED).iterdir())


@pytest.mark.parametrize("first", ["local", "ray"])
def test_begun_with_two_workers_and_finished_by_one_and_the_reverse(stub, config, tmp_path, order, monkeypatch, first):
    whole = run(again(config, out=str(tmp_path / "whole")))
    here, there = again(config, chunk=1), on_ray(config, chunk=1)
    begin, end = (there, again(config, chunk=3)) if first == "ray" else (here, on_ray(config, chunk=3))
    write = store.write_json

    def interrupt(path, manifest):
        write(path, manifest)
        if 5 <= manifest["samples"]["done"] < 11:  # chunks end in any order, some of them with two samples
            raise KeyboardInterrupt

    monkeypatch.setattr(store, "write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(begin)
    monkeypatch.setattr(store, "write_json", write)
    done = run(end)
    assert_same_records(done, whole)
    assert done.manifest["samples"] == {"asked": 11, "done": 11, "failed": 0}


def test_a_chunk_whose_worker_is_killed_is_given_to_another(stub, config, tmp_path, order):
    whole = run(again(config, out=str(tmp_path / "whole")))
    order("die-1"), order("die-2")
    assert_same_records(run(on_ray(config)), whole)


def test_a_chunk_that_kills_every_worker_stops_the_run_by_name(stub, config, tmp_path, order):
    order("always")
    with pytest.raises(RuntimeError, match="workers died 2 times, .* toy/"):
        run(on_ray(config, retries=1))


def test_what_a_worker_raises_stops_the_run(stub, config, tmp_path, order):
    order("disagree")
    with pytest.raises(Exception, match="engine and oracle disagree"):
        run(on_ray(config))
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_worker_of_another_version_is_refused(stub, config, order, monkeypatch):
    monkeypatch.setattr(execute, "identity", lambda *args: key.identity(*args) | {"code": "edited"})
    with pytest.raises(RuntimeError, match="another version.*code"):
        run(on_ray(config))


def test_more_workers_than_fit_are_refused(stub, config, order):
    with pytest.raises(ValueError, match="9 workers .* has 0 GPUs and 2 cores, room for 2"):
        run(on_ray(config, workers=9))
    with pytest.raises(ValueError, match="1 workers of 1 GPUs"):
        run(on_ray(config, workers=1, gpus_per_worker=1))


@pytest.mark.parametrize(
    "cluster_has, asked, workers, holds",
    [
        ({"CPU": 8}, {}, 1, (0, 1)),
        ({"CPU": 64, "GPU": 8}, {}, 8, (1, 1)),
        ({"CPU": 64, "GPU": 8}, {"gpus_per_worker": 0.5, "cpus_per_worker": 2}, 16, (0.5, 2)),
        ({"CPU": 64, "GPU": 8}, {"gpus_per_worker": 4}, 2, (4, 1)),
        ({"CPU": 64, "GPU": 8}, {"workers": 3}, 3, (1, 1)),
    ],
)
def test_how_many_workers_there_are_and_what_each_holds(config, cluster_has, asked, workers, holds):
    assert pool._room(again(config, **asked), cluster_has) == (
        workers, dict(zip(("num_gpus", "num_cpus"), holds, strict=True)),
    )  # fmt: skip


def test_without_ray_the_error_says_what_to_install(stub, config, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'vfkit\[ray\]'"):
        run(on_ray(config))


def test_relative_paths_mean_the_same_to_workers(stub, tmp_path, order, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Ray's own processes were started elsewhere

    def load(path=None):
        (tmp_path / "images").mkdir(exist_ok=True)
        for i in range(4):
            (tmp_path / "images" / f"{i}.png").write_bytes(test_study.png(i))
        return Rows([Sample(f"s{i}", (f"images/{i}.png",), "?", ("a", "b"), 0) for i in range(4)])

    monkeypatch.setitem(LOADERS, "toy", load)
    done = run(on_ray(settings("out", families=["scale"])))
    assert done.errors().empty and len(done.records()) == 8 and (tmp_path / done.folder / "run.json").exists()
