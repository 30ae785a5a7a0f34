"""Launcher of a study: all its runs, side by side on the GPUs there are, each in a process of its own (METHODS 21).

Each process takes a group of runs and does one after the other. What is not available, or fails, becomes a gap: a file
with its reason, which `status` shows and the next success removes. Runs resume, so that an interrupted launch goes on
when it is called again.
"""

import json
import os
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import vfkit
from vfkit.models import ModelUnavailable, find
from vfkit.models.registry import BYTES
from vfkit.study.execute import run_study
from vfkit.study.runs import matching
from vfkit.study.store import Locked, write_json
from vfkit.study.studyfile import Planned, Study

ROOM = 1.25  # memory of a process over that of its weights, and, GB, of batches
BATCHES = 6.0
POLL = 0.5  # seconds
SLICE = 1.0  # GB, of a device whose memory is not told, such as a part of a GPU: one task at a time takes all of these

Device = int | str


@dataclass(frozen=True)
class Task:
    """Runs that one process does, in order.

    Args:
        numbers: of the runs in their study file.
        gigabytes: memory that the largest of their models needs on its device.
    """

    name: str
    numbers: tuple[int, ...]
    gigabytes: float


class Start(NamedTuple):
    """A task to start now, and the devices that it takes: of one, part of its memory; of several, all of it."""

    task: Task
    devices: tuple[Device, ...]


def tasks(runs: Sequence[Planned], by_run: bool) -> list[Task]:
    """Group runs into tasks, those of most memory first.

    Args:
        by_run: one run a task, for many GPUs; else the runs of one model, which is then imported and checked once.
    """
    groups: dict[str, list[Planned]] = {}
    for run in runs:
        groups.setdefault(f"{run.number:03d} {run.name}" if by_run else run.config.model, []).append(run)
    made = [Task(name, tuple(run.number for run in group), max(map(memory, group))) for name, group in groups.items()]
    return sorted(made, key=lambda task: -task.gigabytes)


def pending(runs: Sequence[Planned]) -> list[Planned]:
    """Those of some runs that are not done."""
    every = matching([run.config for run in runs])
    return [run for run, there in zip(runs, every, strict=True) if not any(one.finished for one in there)]


def memory(run: Planned) -> float:
    """GB that a run needs on its device: weights, room over them, and batches; a hosted model needs none."""
    try:
        spec = find(run.config.model)
    except ModelUnavailable:
        return 0.0
    if spec.api is not None:
        return 0.0
    weights = (spec.params or 1.0) * BYTES[run.config.dtype or spec.dtype or "bfloat16"]
    return weights * ROOM + BATCHES * min(1.0, spec.params or 1.0)


def starts(waiting: Sequence[Task], free: Mapping[Any, float], total: Mapping[Any, float]) -> list[Start]:
    """Choose the tasks to start now, largest first. One that does not fit into a device takes the fewest idle devices
    that hold it together; one that fits nowhere even when all are idle is given all, to fail by itself with a reason,
    once nothing else runs. One that fits into a device goes to the one with most room, so that all are used; while
    a larger one waits for idle devices, to the one that it fills most.

    Args:
        free, total: GB by device.
    """
    left, chosen, kept = dict(free), [], False  # kept: idle devices are for a larger task
    largest = max(total.values(), default=0.0)
    for task in sorted(waiting, key=lambda task: -task.gigabytes):
        if task.gigabytes <= largest:
            fitting = [device for device, room in left.items() if room >= task.gigabytes]
            if fitting:
                device = min(fitting, key=lambda device: left[device]) if kept else max(fitting, key=lambda d: left[d])
                left[device] -= task.gigabytes
                chosen.append(Start(task, (device,)))
            continue
        idle = sorted((device for device in left if left[device] == total[device]), key=lambda one: -total[one])
        taken: list[Device] = []
        while idle and sum(total[device] for device in taken) < task.gigabytes:
            taken.append(idle.pop(0))
        enough = sum(total[device] for device in taken) >= task.gigabytes
        if taken and (enough or len(taken) == len(total)):
            left |= dict.fromkeys(taken, 0.0)
            chosen.append(Start(task, tuple(taken)))
        else:
            kept = True
    return chosen


def gpus() -> dict[Device, float]:
    """Free memory in GB of each GPU that this process may use, by its number, or by its name where
    CUDA_VISIBLE_DEVICES gives one that nvidia-smi does not list (a part of a GPU); empty without any. No library is
    loaded."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return usable(told, os.environ.get("CUDA_VISIBLE_DEVICES"))


def usable(told: str, visible: str | None) -> dict[Device, float]:
    """Free memory in GB by GPU.

    Args:
        told: lines of nvidia-smi: index, uuid, free mebibytes, or a text where the driver does not know them.
        visible: value of CUDA_VISIBLE_DEVICES: numbers or uuids, or their beginnings; None makes all visible.
    """
    rows = [[word.strip() for word in line.split(",")] for line in told.splitlines() if line.count(",") == 2]
    room = {int(i): float(free) * 2**20 / 1e9 if free.isdigit() else SLICE for i, _, free in rows if i.isdigit()}
    if visible is None:
        return dict(room.items())
    named = [one.strip() for one in visible.split(",") if one.strip() and not one.strip().startswith("-")]
    found: dict[Device, float] = {}
    for one in named:
        index = next((int(i) for i, uuid, _ in rows if one == i or (uuid.startswith(one) and not one.isdigit())), None)
        if index in room:
            found[index] = room[index]
        elif not one.isdigit():
            found[one] = SLICE
    return found


def cores() -> dict[Device, float]:
    """Slots for processes on a machine without GPUs, one per core that it may use, and memory in GB of each."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:  # a container's share of the processors
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        n = min(n, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return dict.fromkeys(range(n), there / n)


def do_here(study: Study, runs: Sequence[Planned]) -> int:
    """Do runs in this process, one after the other; returns how many became gaps, each with a file of its reason."""
    gaps = 0
    for run in runs:
        print(f"run {run.number}: {run.name}", flush=True)
        path = gap_file(study, run)
        path.unlink(missing_ok=True)  # of an earlier attempt
        try:
            done = run_study(run.config).manifest["samples"]
            if done["done"] == done["failed"]:
                raise RuntimeError(f"none of its {done['done']} samples could be read")
        except Locked as error:
            print(f"run {run.number}: {error}", flush=True)
        except Exception as error:
            gaps += 1
            reason = str(error).strip().splitlines() or [type(error).__name__]
            write_json(path, {"run": run.number, "name": run.name, "reason": reason[0], "error": type(error).__name__})
            print(f"run {run.number} is left out: {reason[0]}", flush=True)
            if not isinstance(error, RuntimeError | OSError | ValueError):
                traceback.print_exc()
        _release()
    return gaps


def launch(
    study: Study, runs: Sequence[Planned], command: Sequence[str], on_gpus: Mapping[Device, float] | None = None,
    jobs: int | None = None,
) -> int:  # fmt: skip
    """Do runs in processes of their own, side by side as far as memory goes; returns how many became gaps.

    Args:
        command: which does the runs whose numbers are appended, in its own process: `... --here --only`.
        on_gpus: memory by GPU; None asks the machine, unless all runs are for the CPU. Without any, processes share
            the cores.
        jobs: processes at a time, at most; None takes as many as there are cores, and one for each GPU at least.

    Raises:
        KeyboardInterrupt: after the processes have ended; what they finished is kept.
    """
    gpu = dict(on_gpus or {})
    if on_gpus is None and any(run.config.device != "cpu" for run in runs):
        gpu = gpus()
    total, processors = gpu or cores(), len(cores())
    free, waiting = dict(total), tasks(runs, by_run=bool(gpu))
    most = min(jobs or max(processors, len(gpu)), len(waiting))
    running: dict[subprocess.Popen[bytes], Start] = {}
    try:
        while waiting or running:
            chosen = starts(waiting, free, total)[: most - len(running)]
            beside = max(len(running) + len(chosen), min(most, len(total)))  # processes that share the cores
            for start in chosen:
                log = _log(study, start.task)
                print(f"{start.task.name}: {_where(start, bool(gpu))}; its lines go to {log}", flush=True)
                environment = os.environ | {"OMP_NUM_THREADS": str(max(1, processors // beside))}
                words = [*command, *(str(number) for number in start.task.numbers)]
                if gpu:
                    environment |= {"CUDA_VISIBLE_DEVICES": ",".join(map(str, start.devices))}
                    words += ["--device", "auto"] if len(start.devices) > 1 else []
                for run in _of(runs, start.task):
                    gap_file(study, run).unlink(missing_ok=True)  # of an earlier attempt
                with log.open("ab") as lines:
                    process = subprocess.Popen(words, stdout=lines, stderr=lines, env=environment)
                running[process] = start
                waiting.remove(start.task)
                for device in start.devices:
                    free[device] -= start.task.gigabytes if len(start.devices) == 1 else total[device]
            time.sleep(POLL)
            for process in [one for one in running if one.poll() is not None]:
                start = running.pop(process)
                for device in start.devices:
                    free[device] += start.task.gigabytes if len(start.devices) == 1 else total[device]
                    free[device] = total[device] if not _busy(device, running) else free[device]
                _end(study, _of(runs, start.task), start.task, process.returncode)
    finally:
        _stop(running)
    return sum(gap_file(study, run).exists() for run in runs)


def slurm(study: Study, runs: Sequence[Planned], command: Sequence[str], partition: str = "", hours: int = 24) -> str:
    """Write a SLURM array script with one task for each run; every option is named and may be edited. The folder of
    its logs is made now: SLURM opens them before a script begins.

    Args:
        command: which does the run whose number is appended, in its own process.
    """
    ids = ",".join(str(run.number) for run in runs)
    need = max(map(memory, runs), default=0.0)
    per_node = max(1, -(-int(need) // 80))
    on_gpus = any(run.config.device != "cpu" and not _hosted(run) for run in runs)
    gpu = f"--gpus-per-node={per_node}  # of 80 GB: the largest model needs about {need:.0f} GB"
    spread = " --device auto" if on_gpus and per_node > 1 else ""
    folder = _folder(study).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return f"""#!/bin/bash
# Runs of study {study.name}, one array task each: sbatch SCRIPT. A task that is stopped goes on when submitted again.
#SBATCH --job-name=vfkit-{study.name}
#SBATCH --array={ids}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
{"#SBATCH " + gpu if on_gpus else "# #SBATCH --gpus-per-node=1"}
#SBATCH --mem=64G
#SBATCH --time={hours}:00:00
#SBATCH --output={shlex.quote(str(folder).replace("%", "%%") + "/slurm-%A_%a.log")}
{"#SBATCH --partition=" + shlex.quote(partition) if partition else "# #SBATCH --partition=NAME"}
set -euo pipefail
cd {shlex.quote(os.getcwd())}
export OMP_NUM_THREADS="${{SLURM_CPUS_PER_TASK:-8}}"
{shlex.join(command)} "$SLURM_ARRAY_TASK_ID"{spread}
"""


def gap_file(study: Study, run: Planned) -> Path:
    """File that says why a run was left out."""
    return _folder(study) / f"gap-{run.number:03d}.json"


def read_gap(study: Study, run: Planned) -> str:
    """Why a run was left out; "" if it was not."""
    try:
        return json.loads(gap_file(study, run).read_text(encoding="utf-8"))["reason"]
    except (OSError, ValueError, KeyError):
        return ""


def _folder(study: Study) -> Path:
    return Path(study.settings.get("out", "outputs"), "studies", study.name)


def _log(study: Study, task: Task) -> Path:
    folder = _folder(study)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{vfkit.study.key.safe_name(task.name)}.log"


def _where(start: Start, gpu: bool) -> str:
    runs = f"runs {', '.join(map(str, start.task.numbers))}"
    return f"{runs} on GPU {', '.join(map(str, start.devices))}" if gpu else runs


def _of(runs: Sequence[Planned], task: Task) -> list[Planned]:
    return [run for run in runs if run.number in task.numbers]


def _busy(device: Device, running: Mapping[Any, Start]) -> bool:
    return any(device in start.devices for start in running.values())


def _hosted(run: Planned) -> bool:
    try:
        return find(run.config.model).api is not None
    except ModelUnavailable:
        return False


def _stop(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """End processes and wait for them; those that do not end before another Ctrl-C are killed."""
    processes = list(running)
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
        raise


def _end(study: Study, own: Sequence[Planned], task: Task, code: int) -> None:
    """Say how a task ended; of a process that failed as a whole, note its runs that are not done as gaps."""
    if code:
        said = _log(study, task).read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        reason = f"its process ended with status {code}; {_log(study, task)} ends with: {last[:200]}"
        for run in pending(own):
            if not gap_file(study, run).exists():
                write_json(gap_file(study, run), {"run": run.number, "name": run.name, "reason": reason, "error": ""})
    left = len(pending(own))  # gaps, and runs that another process is at
    print(f"{task.name}: " + (f"{len(own) - left} of {len(own)} runs done" if left else "done"), flush=True)


def _release() -> None:
    """Free the memory of the last model."""
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
