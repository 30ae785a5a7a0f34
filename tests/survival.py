"""Survival, for as long as one likes: `python tests/survival.py --kills 30 --engine local` (or `ray`).

A study of stub readouts is killed (SIGKILL) at random moments, each time started again, until it has been killed so
often and has then finished; with Ray the victim is a worker or the process that runs the study. Its records must then
be those of a run that was never stopped. `--disk` fills a small file system under a run instead (needs the right to
mount one).
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import test_study

from vfkit.study import open_run, run_study, workers

HERE = Path(__file__).parent
SIZE = 240  # samples, two a part
CHILD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import survival
survival.child(sys.argv[2], sys.argv[3])
"""


class Stubbed(workers.Remote):
    """A worker on Ray with the stub in place of its model."""

    def work(self, *args):
        if self.vlm is None:
            install()
        return super().work(*args)


def install():
    """The stub of `test_study` in place of models, a little slow."""
    stub = test_study.Stub().install(lambda d, key, value: d.__setitem__(key, value))
    stub.before_read, stub.fail = (lambda: time.sleep(0.05)), test_study.some_failures


def settings(out, engine="local"):
    fields = dict(engine=engine, workers=2, retries=100) if engine == "ray" else {}
    return test_study.settings(out, chunk=2, dataset_options={"size": SIZE}, **fields)


def child(out, engine):
    """The study, in a process of its own."""
    install()
    if engine == "ray":
        import ray

        workers.Remote = Stubbed
        options = dict(include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
        ray.init(address="local", num_cpus=2, num_gpus=0, **options)
    print("begun", flush=True)
    run_study(settings(out, engine), progress=False)


def start(out, engine, token):
    environment = os.environ | {"VFKIT_SURVIVAL": token, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", CHILD, str(HERE), str(out), engine]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()  # "begun": starting Python and Ray is not what is to be killed
    return process


def parts(out):
    return len(list(out.glob("*/*/*/*/records/part-*.parquet")))


def workers(token):
    """Processes of this script's own Ray workers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"VFKIT_SURVIVAL={token}".encode() in (folder / "environ").read_bytes()
            if mine and (folder / "cmdline").read_bytes().startswith(b"ray::Stubbed"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def killed(engine, kills, seed=0):
    """A run killed so often and then finished; its folder, and at how many samples each kill came."""
    rng, token, out = Random(seed), f"{os.getpid()}", Path(tempfile.mkdtemp())
    done, moments = 0, []
    while True:
        process = start(out, engine, token)
        while len(moments) < kills:
            target = parts(out) + rng.randint(0, 5)
            while parts(out) < target and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            victims = workers(token) if engine == "ray" and len(moments) % 3 else [process.pid]
            if process.poll() is not None:
                break
            if not victims:  # the last one killed is not replaced yet
                continue
            os.kill(rng.choice(victims), signal.SIGKILL)
            done += 1
            moments.append(parts(out))
            print(f"kill {done}: {'worker' if victims != [process.pid] else 'run'} at {moments[-1]} parts", flush=True)
            if victims == [process.pid]:
                break
        code = process.wait()
        assert code in (0, -signal.SIGKILL), f"the run ended with status {code}"
        if code == 0 and len(moments) < kills:  # finished too soon: begin anew
            shutil.rmtree(out)
        elif code == 0:
            return out, moments


def disk(kilobytes):
    """A run on a file system of this size, until it is full; then on a larger one."""
    place = Path(tempfile.mkdtemp())
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], check=True)
    try:
        command = [sys.executable, "-c", CHILD, str(HERE), str(place), "local"]
        first = subprocess.run(command, capture_output=True, text=True)
        print(first.returncode, first.stderr.strip().splitlines()[-1])
        subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)
        second = subprocess.run(command, capture_output=True)
        assert first.returncode == 1 and second.returncode == 0, second.stderr
        return Path(shutil.copytree(place, tempfile.mkdtemp(), dirs_exist_ok=True))
    finally:
        subprocess.run(["umount", str(place)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--disk", type=int, default=0, metavar="KB")
    options = parser.parse_args()
    out = disk(options.disk) if options.disk else killed(options.engine, options.kills)[0]

    install()
    whole = run_study(settings(tempfile.mkdtemp()), progress=False)
    survivor = open_run(next(out.rglob("run.json")).parent)
    test_study.assert_same_records(survivor, whole)
    assert survivor.errors().equals(whole.errors()) and not list(out.rglob("*.tmp"))
    print(f"{len(survivor.records())} records, complete and unique, equal to those of a run that was never stopped")


if __name__ == "__main__":
    main()
