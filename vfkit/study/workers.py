"""Workers that read the chunks of a job: one in this process, or workers of Ray on one machine or several.

On Ray each worker is a process with its own model; this process, which holds the run's lock, hands chunks out and
adopts the parts that come back.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any
from uuid import uuid4

import vfkit
from vfkit.study import provenance, store
from vfkit.study.config import StudyConfig
from vfkit.study.job import Job
from vfkit.study.key import identity
from vfkit.study.work import Done, work

PATIENCE = 60  # seconds after which it is said that no worker has begun
Say = Callable[[str], None]
"""Prints a line about a run's progress."""


class Worker:
    """Loads its model when the first chunk needs it, and checks the first samples that it reads against the oracle."""

    def __init__(self, config: StudyConfig, say: Say = lambda text: None):
        self.config, self.say = config, say
        self.vlm: Any = None
        self.unverified, self.overhead = config.verify, 0.0

    def work(self, job: Job) -> Done:
        """Read the samples of a job as one chunk and write them as one part in its folder."""
        before: Counter[str] = Counter(self.vlm.counters) if self.vlm else Counter()
        done = work(job, self.model, self.unverified)
        self.unverified -= done.verified
        self.overhead += done.checking
        if done.verified:
            self.say(f"checked {done.verified} samples against the oracle ({done.checking:.0f} s)")
        if self.vlm is None:
            return done
        counters = Counter(self.vlm.counters)
        counters.subtract(before)
        return done._replace(counters=counters, overhead=self.overhead, reader=provenance.reader(self.vlm))

    def twin(self) -> "Worker":
        """Make a worker for another thread, with the same model, which is checked already."""
        other = Worker(self.config, self.say)
        other.vlm, other.unverified = self.vlm.twin(), 0
        return other

    def ahead(self) -> int:
        """Return the number of chunks whose images are prepared while another is read: by default 2 beside a GPU, none
        on a CPU, which has no idle time. A hosted model is asked many questions at once anyway."""
        if self.vlm is None or vfkit.models.is_hosted(self.config.model):
            return 0
        if self.config.ahead is not None:
            return self.config.ahead
        return 0 if self.vlm.describe()["device"] == "cpu" else 2

    def model(self) -> Any:
        """The study's model; a hosted one keeps its answers under `out/answers`, for all studies."""
        if self.vlm is None:
            config, begun = self.config, time.monotonic()
            self.say(f"loading {config.model}")
            if vfkit.models.is_hosted(config.model):
                self.vlm = vfkit.models.load_hosted(config.model, Path(config.out, "answers"))
            else:
                self.vlm = vfkit.load_model(config.model, device=config.device, dtype=config.dtype)
                self.vlm.set_thinking(config.protocol.thinking, config.max_new_tokens)
            self.vlm.wording = config.protocol.wording
            self.overhead += time.monotonic() - begun
        return self.vlm


def local(job: Job, who: dict[str, Any], say: Say) -> Generator[Done, None, None]:
    """Read the chunks in this process, in order.

    With `ahead`, the images of so many chunks are opened, perturbed, made into tensors and measured in threads while
    the model, which one thread uses at a time, reads another. The first chunks are read one by one, until the oracle
    has checked what it is to check. An error of a chunk ends the run once the chunks in work are done.
    """
    first, chunks = Worker(job.config, say), job.chunks()
    for chunk in chunks:
        yield first.work(chunk)
        if first.vlm is not None and not first.unverified:
            break
    ahead = first.ahead()
    if not ahead:
        yield from map(first.work, chunks)
        return
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in (first, *(first.twin() for _ in range(ahead))):
        idle.put(worker)

    def work_on(chunk: Job) -> Done:
        worker = idle.get()
        try:
            return worker.work(chunk)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(1 + ahead) as pool:
        running: deque[Future[Done]] = deque()
        try:
            for chunk in chunks:
                running.append(pool.submit(work_on, chunk))
                if len(running) > ahead:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class Remote(Worker):
    """A worker in another process, perhaps on another machine.

    Args:
        who: what names the run (`vfkit.study.key.identity`).
        place: the working directory of the process that started the run, so that relative paths mean the same here.
    """

    def __init__(self, config: StudyConfig, who: dict[str, Any], place: str):
        super().__init__(config)
        self.who, self.place = who, place

    def ready(self) -> None:
        """Return once the worker's process runs."""

    def work(self, job: Job) -> Done:
        """As `Worker.work`.

        Raises:
            RuntimeError: code, libraries or model here are not those of the process that started the run, or its
                working directory does not exist here.
        """
        if self.vlm is None:
            try:
                os.chdir(self.place)
            except OSError as error:
                raise RuntimeError(
                    f"the run was started in {self.place}, which this worker cannot enter ({error.strerror}): the "
                    "folder must be reachable by the same path from every machine"
                ) from error
            here = identity(job.config, job.suite, self.who["data"])
            if other := [name for name in here if here[name] != self.who[name]]:
                raise RuntimeError(f"a worker has another version than the run it works for: {', '.join(other)} differ")
        return super().work(job)


def on_ray(job: Job, who: dict[str, Any], say: Say) -> Generator[Done, None, None]:
    """Yield chunks in the order in which workers finish them. A chunk whose worker died is given to a new one.

    An existing cluster is joined (`RAY_ADDRESS`, or one started on this machine by `ray start`), else one is started
    for this run. The run's folder, the working directory and the images must be reachable by the same paths from every
    machine.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: more workers than the cluster has room for.
        RuntimeError: a chunk's workers died more than `retries` times, or a worker has another version.
        What `work` raises as a whole is raised here too.
    """
    if not job.samples:
        return
    ray, config, folder = _ray(), job.config, job.folder.resolve()
    mine = not ray.is_initialized()
    if mine:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells no one that it runs
        ray.init()
    workers = []
    try:
        n, resources = _room(config, ray.cluster_resources())
        remote, place = ray.remote(**resources)(Remote), os.getcwd()

        def hire():
            workers.append(remote.remote(config, who, place))
            starting[workers[-1].ready.remote()] = workers[-1]

        waiting = deque(job.chunks())
        deaths: Counter[str] = Counter()
        n = min(n, len(waiting))
        say(f"starting {n} worker{'s' * (n > 1)}, each of which loads {config.model}")
        idle: list[Any] = []
        starting: dict[Any, Any] = {}  # a lost machine leaves no room for a worker in place of its own
        busy: dict[Any, Any] = {}
        for _ in range(n):
            hire()
        while waiting or busy:
            while waiting and idle:
                worker, chunk, staged = idle.pop(), waiting.popleft(), store.staging(folder, uuid4().hex)
                busy[worker.work.remote(replace(chunk, folder=staged))] = worker, chunk, staged
            ended, _ = ray.wait([*busy, *starting], num_returns=1, timeout=PATIENCE)
            if not ended:
                if not busy:
                    say("no worker has room in the cluster yet")
                continue
            (finished,) = ended
            starts = starting.pop(finished, None)
            worker, chunk, staged = busy.pop(finished, (starts, None, None))
            try:
                done = ray.get(finished)
            except ray.exceptions.RayTaskError as error:  # the worker lives; what it raised is an error of the run
                raise (error.cause or error) from None
            except ray.exceptions.RayError as error:
                first = chunk.samples[0].id if chunk else ""
                deaths[first] += 1
                if deaths[first] > config.retries:
                    names = (
                        "while reading " + ", ".join(one.id for one in chunk.samples) if chunk else "before it began"
                    )
                    raise RuntimeError(f"workers died {deaths[first]} times, the last {names}: {error}") from error
                waiting.extendleft([chunk] if chunk else [])
                workers.remove(worker)
                ray.kill(worker)
                hire()
                continue
            if chunk is None:
                idle.append(worker)
                continue
            store.adopt(folder, staged)
            idle.append(worker)
            yield done
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
    """Return the number of workers and the resources of each."""
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


ENGINES = {"local": local, "ray": on_ray}
"""Where chunks are read: each takes a job, what names the run, and a function that prints a line; and yields what
became of each chunk, its part being in the run's folder."""
