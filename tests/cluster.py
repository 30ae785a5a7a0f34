"""A cluster of two nodes on this machine, one killed half-way: `python tests/cluster.py --model mini_qwen3vl --n 40`.

Ray's own utilities start the nodes in a folder of their own; the study runs in another one, with relative paths. Its
records must be those of a run in one process: equal answers and texts, and scores within what batches of another
composition change by rounding.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd

HERE = Path(__file__).parent
ROUNDING = 1e-3  # of log-probabilities, and of what is measured of states


def run(model: str, n: int, seconds: float) -> str:
    """Run a study on two nodes, one of which is killed when a third of the samples are done, and compare.

    Args:
        seconds: to wait for the first samples.

    Returns:
        What was compared, in one line.

    Raises:
        AssertionError: the records differ, or the study is not complete.
    """
    nodes, client = Path(tempfile.mkdtemp(prefix="nodes-")), Path(tempfile.mkdtemp(prefix="client-"))
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    os.chdir(nodes)

    import ray

    cluster, second = _nodes()
    os.chdir(client)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")

    import vfkit
    from vfkit.study import execute

    fields = dict(model=model, dataset="mini_seed", n=n, families=["translation", "text_overlay"], device="cpu")
    config = vfkit.StudyConfig(**fields, out="shared", engine="ray", workers=2, chunk=2, retries=10)
    killed = threading.Event()

    def kill_half_way() -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            done = [each.manifest["samples"]["done"] for each in execute.find_runs("shared")]
            if done and n > done[0] >= n // 3:
                cluster.remove_node(second, allow_graceful=False)
                killed.set()
                return
            time.sleep(0.1)

    watch = threading.Thread(target=kill_half_way)
    watch.start()
    try:
        spread = vfkit.run_study(config, progress=False)
    finally:
        watch.join()
        ray.shutdown()
        cluster.shutdown()
    assert killed.is_set(), "the run ended before its node was killed: give a larger --n"
    whole = vfkit.run_study(vfkit.StudyConfig(**fields, out="alone", chunk=2), progress=False)
    assert spread.manifest["samples"] == {"asked": n, "done": n, "failed": 0} and spread.finished
    assert spread.folder.name == whole.folder.name
    theirs, ours = spread.records(), whole.records()
    same = ["sample_id", "family", "instance", "prediction", "flip"]
    pd.testing.assert_frame_equal(theirs[same], ours[same])
    pd.testing.assert_frame_equal(theirs, ours, rtol=0, atol=ROUNDING)
    return f"{len(ours)} records of {n} samples: equal to those of one process, with one of two nodes killed half-way"


def _nodes() -> tuple[Any, Any]:
    """A cluster of two nodes, and the second of them."""
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": 80 * 2**20, "num_gpus": 0, "num_cpus": 1}
    for attempt in range(5):  # on a busy machine Ray's own processes may take longer than it waits for them
        cluster = Cluster()
        try:
            cluster.add_node(**memory, include_dashboard=False)
            second = cluster.add_node(**memory)
            cluster.wait_for_nodes()
            return cluster, second
        except Exception:
            cluster.shutdown()
            if attempt == 4:
                raise
    raise AssertionError("unreachable")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini_qwen3vl")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=600)
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    print(run(given.model, given.n, given.seconds))
