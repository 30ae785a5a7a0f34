"""Costs of one way to read: wall time, encodes, prefills and peak memory."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


def measure(vlm, read: Callable[[], Any]) -> dict[str, float | int | None]:
    """Call `read` once and measure it.

    Returns:
        `seconds`, and `cpu_seconds` of all threads; `encodes`, images through the vision encoder; `prefills`, rows
        through the language model that begin with an image; `peak_mb`, memory at its highest above what was held
        before (of the GPU if there is one), None if the system does not report it.
    """
    before = _reset_peak(vlm.device)
    with _counted(vlm) as counts:
        start, cpu = time.perf_counter(), time.process_time()
        read()
        if vlm.device.type == "cuda":
            torch.cuda.synchronize(vlm.device)
        spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    peak = _peak(vlm.device)
    grown = None if before is None or peak is None else round((peak - before) / 2**20, 1)
    rounded = {name: round(value, 4) for name, value in spent.items()}
    return {**rounded, **{name: counts[name] for name in ("encodes", "prefills")}, "peak_mb": grown}


@contextmanager
def _counted(vlm) -> Iterator[Counter]:
    """Count the calls of the encoder and of the language model by hooks."""
    counts: Counter = Counter()

    def encode(_, args, kwargs) -> None:
        counts.update(encodes=len(kwargs["grid_thw"]), waiting=1)

    def prefill(_, args, kwargs) -> None:
        if counts.pop("waiting", 0):
            counts.update(prefills=len(kwargs["inputs_embeds"]))

    backbone = vlm.adapter.backbone(vlm.model)
    doors = {backbone.visual: encode, backbone.language_model: prefill}
    hooks = [door.register_forward_pre_hook(count, with_kwargs=True) for door, count in doors.items()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def _reset_peak(device: torch.device) -> int | None:
    """Reset the peak and return the bytes held now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not Linux
        return None
    return _status("VmRSS")


def _peak(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _status("VmHWM")


def _status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
