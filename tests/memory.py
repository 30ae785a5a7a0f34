"""How much a run holds: `python tests/memory.py --n 50000` does a study of stub readouts and prints its resident size.

It must stay what it was after the first tenth: records are written as they come, images opened as they are read.
"""

import argparse
import gc
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import test_study

from vfkit.datasets import LOADERS, Rows
from vfkit.sample import Sample
from vfkit.study import StudyConfig, run_study, store

ALLOWED = 0.05  # growth from the first tenth to the end
IMAGES = 200  # files; questions share them


def resident() -> int:
    """Bytes of memory this process holds; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


def load(folder: Path, side: int, path: None = None, size: int = 1000) -> Rows:
    """Questions on image files."""
    for i in range(min(size, IMAGES)):
        (folder / f"{i}.png").write_bytes(test_study.png(i, side))
    paths = [str(folder / f"{i}.png") for i in range(IMAGES)]
    options = ("red", "green", "light blue", "None")
    return Rows([Sample(f"many/{i}", (paths[i % IMAGES],), f"question {i}", options, i % 4) for i in range(size)])


def study(n: int, out: Path, watch, side: int = 40, chunk: int = 50):
    """A study of n samples in which `watch` is called with the number of samples done, chunk after chunk."""
    images, write = out / "images", store.write_json
    images.mkdir(parents=True)
    LOADERS["many"] = partial(load, images, side)

    def watched(path, manifest):
        write(path, manifest)
        watch(manifest["samples"]["done"])

    store.write_json = watched
    try:
        fields = dict(dataset_options={"size": n}, families=["scale"], chunk=chunk, verify=0, out=str(out))
        return run_study(StudyConfig(model="stub", dataset="many", n=None, **fields), progress=False)
    finally:
        store.write_json = write
        del LOADERS["many"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50_000)
    options = parser.parse_args()
    stub = test_study.Stub().install(lambda d, key, value: d.__setitem__(key, value))
    sizes, start = {}, time.monotonic()

    def watch(done):
        stub.calls.clear()
        tenth = done * 10 // options.n
        if tenth not in sizes:
            gc.collect()
            sizes[tenth] = resident()
            print(f"{done:7} samples, {sizes[tenth] / 2**20:7.1f} MB, {time.monotonic() - start:6.0f} s", flush=True)

    run = study(options.n, Path(tempfile.mkdtemp()), watch)
    growth = sizes[10] / sizes[1] - 1
    begun = time.monotonic()
    rows = len(run.records())
    print(f"{rows} records, read back in {time.monotonic() - begun:.0f} s; growth since the first tenth: {growth:+.1%}")
    sys.exit(growth > ALLOWED)


if __name__ == "__main__":
    main()
