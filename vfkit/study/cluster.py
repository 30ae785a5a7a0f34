"""Chunks on Ray: workers in processes of their own, on one machine or many, each with a model; this process, which
holds the run's lock, hands chunks out and adopts the parts that come back.
"""

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import vfkit
from vfkit.sample import Sample
from vfkit.study import store
from vfkit.study.config import StudyConfig
from vfkit.study.plan import Partners, chunks, surroundings
from vfkit.study.work import Done
from vfkit.study.worker import Worker


class Remote(Worker):
    """A worker in another process, perhaps on another machine."""

    def __init__(self, config: StudyConfig, suite, expected: dict):
        super().__init__(config, suite)
        self.expected = expected

    def work(self, chunk: Sequence[Sample], folder: Path, partners: Partners) -> tuple[Done, dict]:
        """As `Worker.work`.

        Raises:
            RuntimeError: code, libraries or model here are not those of the process that started the run.
        """
        if self.vlm is None and (here := _surroundings(self.config)) != self.expected:
            other = [name for name in here if here[name] != self.expected[name]]
            raise RuntimeError(f"a worker has another version than the run it works for: {', '.join(other)} differ")
        return super().work(chunk, folder, partners)


def on_ray(
    config: StudyConfig, todo: Sequence[Sample], suite, folder: Path, partners: Partners
) -> Iterator[tuple[Done, dict]]:
    """Chunks in the order in which workers finish them. A chunk whose worker died is given to a new one.

    An existing cluster is joined (`RAY_ADDRESS`, or one started on this machine by `ray start`), else one is started
    for this run. The run's folder and the images must be reachable by the same paths from every machine.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: more workers than the cluster has room for.
        RuntimeError: a chunk's workers died more than `retries` times, or a worker has another version.
        What `work` raises as a whole is raised here too.
    """
    if not todo:
        return
    ray = _ray()
    mine = not ray.is_initialized()
    if mine:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells no one that it runs
        ray.init()
    workers = []
    try:
        n, resources = _room(config, ray.cluster_resources())
        remote, expected = ray.remote(**resources)(Remote), _surroundings(config)

        def hire():
            workers.append(remote.remote(config, suite, expected))
            return workers[-1]

        folder = folder.resolve()  # workers start elsewhere
        config = config.model_copy(update={"out": str(Path(config.out).resolve())})
        waiting, deaths = deque(chunks(todo, config.chunk)), Counter()
        idle, busy = [hire() for _ in range(min(n, len(waiting)))], {}
        while waiting or busy:
            while waiting and idle:
                worker, chunk, staged = idle.pop(), waiting.popleft(), store.staging(folder, uuid4().hex)
                theirs = {sample.id: partners[sample.id] for sample in chunk if sample.id in partners}
                busy[worker.work.remote(chunk, staged, theirs)] = worker, chunk, staged
            (finished,), _ = ray.wait(list(busy), num_returns=1)
            worker, chunk, staged = busy.pop(finished)
            try:
                result = ray.get(finished)
            except ray.exceptions.RayTaskError as error:  # the worker lives; what it raised is an error of the run
                raise (error.cause or error) from None
            except ray.exceptions.RayError as error:
                deaths[chunk[0].id] += 1
                if deaths[chunk[0].id] > config.retries:
                    names = ", ".join(sample.id for sample in chunk)
                    raise RuntimeError(
                        f"workers died {deaths[chunk[0].id]} times, the last while reading {names}: {error}"
                    ) from error
                waiting.appendleft(chunk)
                workers.remove(worker)
                ray.kill(worker)
                idle.append(hire())
                continue
            store.adopt(folder, staged)
            idle.append(worker)
            yield result
    finally:
        for worker in workers:
            ray.kill(worker)
        if mine:
            ray.shutdown()


def _ray() -> ModuleType:
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError("engine='ray' needs Ray, which is not installed: pip install 'vfkit[ray]'") from None
    import ray.exceptions

    return ray


def _room(config: StudyConfig, cluster: dict[str, float]) -> tuple[int, dict[str, float]]:
    """How many workers there are to be, and what each holds of the cluster."""
    gpus = config.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if cluster.get("GPU") else 0.0
    needs = {"GPU": gpus, "CPU": config.cpus_per_worker}
    fit = min(int(cluster.get(what, 0) / each + 1e-9) for what, each in needs.items() if each)
    n = config.workers or max(1, int(cluster.get("GPU", 0) / gpus) if gpus else 1)
    if n > fit:
        raise ValueError(
            f"{n} workers of {gpus:g} GPUs and {config.cpus_per_worker:g} CPU cores do not fit into this Ray cluster: "
            f"it has {cluster.get('GPU', 0):g} GPUs and {cluster.get('CPU', 0):g} cores, room for {fit} such workers"
        )
    return n, {"num_gpus": gpus, "num_cpus": config.cpus_per_worker}


def _surroundings(config: StudyConfig) -> dict:
    return {"model": vfkit.models.fingerprint(config.model, dtype=config.dtype)} | surroundings()
