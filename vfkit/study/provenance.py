"""What a run says of its making, so that it can be made again: versions, code, machine, and who read it."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vfkit

PACKAGES = (
    *("torch", "torchvision", "transformers", "tokenizers", "pillow", "matplotlib", "numpy", "scipy"),
    *("pandas", "pyarrow", "pydantic"),
)


def versions() -> dict[str, str]:
    """Of the kit, of Python and of every package that a record passes through."""
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
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def reader(vlm) -> dict[str, Any]:
    """What read a chunk: device, dtype, attention and processor back end; None where a hosted model has none."""
    model, processor = getattr(vlm, "model", None), getattr(vlm, "processor", None)
    image_processor = getattr(processor, "image_processor", None)
    dtype = getattr(vlm, "dtype", None)
    return {
        "device": _device(getattr(vlm, "device", None)),
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "attention": getattr(getattr(model, "config", None), "_attn_implementation", None),
        "processor": None if image_processor is None else type(image_processor).__name__,
        "processor_backend": getattr(image_processor, "backend", None),
    }


def _device(device: Any) -> str | None:
    if getattr(device, "type", None) == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return None if device is None else f"{device}: {machine()['cpu']}" if str(device) == "cpu" else str(device)


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
