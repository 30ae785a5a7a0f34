"""Provenance of a run: versions, code, machine, and the model that read it."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vfkit
from vfkit.readout import Reader

PACKAGES = (
    *("torch", "torchvision", "transformers", "tokenizers", "pillow", "matplotlib", "numpy", "scipy"),
    *("pandas", "pyarrow", "pydantic"),
)


def versions() -> dict[str, str]:
    """Versions of the kit, of Python and of every package that records depend on."""
    own = {"vfkit": vfkit.__version__, "python": platform.python_version()}
    return own | {package: version(package) for package in PACKAGES}


def commit() -> dict[str, Any] | None:
    """The kit's commit, and whether its package has been changed since; None outside git."""
    package = Path(vfkit.__file__).parent
    try:
        head = _git(package, "rev-parse", "HEAD")
        if not _git(package, "ls-files", "__init__.py"):  # installed inside some other repository
            return None
        return {"commit": head, "changed": bool(_git(package, "status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *command: str) -> str:
    command = ("git", "--no-optional-locks", *command)  # a killed `git status` would leave the repository locked
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def reader(vlm: Reader) -> dict[str, Any]:
    """Describe the model that read a chunk, with the processor's name if it ran on the CPU."""
    described = vlm.describe()
    return described | ({"device": f"cpu: {machine()['cpu']}"} if described["device"] == "cpu" else {})


@cache
def machine() -> dict[str, Any]:
    """Processor, cores this process may use, memory in GB, system. No name of the machine's own."""
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return {"cpu": cpu, "cores": cores, "memory_gb": round(memory), "system": platform.system()}
