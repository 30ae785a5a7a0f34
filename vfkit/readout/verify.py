"""Self-check of a run: engine against oracle on its first samples, with the model in use."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from vfkit.readout.engine import read_many
from vfkit.readout.oracle import read_oracle
from vfkit.readout.reader import Request
from vfkit.readout.readout import Readout

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.bfloat16: 0.15, torch.float16: 0.03}
"""Difference that is allowed, by the model's type, in any number of a readout before the model's own rounding is
measured.

float32: engine and oracle differ by the order of sums only. Half types keep 8 (bfloat16) or 11 (float16) significant
bits; on random models of three layers, of every architecture, the largest difference in bfloat16 is 0.03, and rounding
adds up over layers like a random walk. Positions counted wrongly, or a window that is not there, move numbers on the
same models by 0.5 to 2. Finer mistakes (an image's tokens seen one way only: 0.15) show in float32 only.
"""

TIMES_ROUNDING = 6.0
"""Difference that is allowed as a multiple of the measured rounding: two maxima of a dozen numbers with one spread
differ by less than this in all but one of some thousand cases."""


class VerifyError(RuntimeError):
    """Engine and oracle disagree: numbers read with this model would be wrong."""


def verify(vlm, requests: Sequence[Request], readouts: Sequence[Readout]) -> float:
    """Read every request again by the oracle; returns the largest difference found.

    If one exceeds `TOLERANCE`, the rounding of this model on this device is measured and sets the tolerance; if one
    exceeds that too and the model fits in float32, float32 decides.

    Raises:
        VerifyError: a part of a score, a probe or a vision token differs by more than rounding explains. The message
            says whether it looks like rounding (small, everywhere) or like a wrong adapter (large).
    """
    worst = 0.0
    for request, readout in zip(requests, readouts, strict=True):
        differences, again = _differences(vlm, request, readout, TOLERANCE[vlm.dtype])
        if not _within(differences, dict.fromkeys(differences, TOLERANCE[vlm.dtype])):
            differences = _beyond_tolerance(vlm, request, readout, again)
        worst = max(worst, *differences.values())
    return worst


def rounding_floor(vlm, request: Request, read: Readout) -> dict[str, float]:
    """Measure how much a readout changes when the oracle computes the same in another order: two rows at once,
    attention by another kernel. No difference between engine and oracle can be expected to be smaller.

    Returns:
        The largest difference by kind, `scores` and `states`.
    """
    sample, images = request
    with _another_way(vlm):
        other = read_oracle(vlm, sample, images, bool(read.probes), like=read, slack=float("inf"))
    return _by_kind(compare(other, read))


def exact_difference(vlm, request: Request, probes: bool = True) -> float | None:
    """Largest difference between engine and oracle on one request in float32, where only mistakes remain; None if the
    model does not fit in float32, is on several devices, or is quantised."""
    sample, images = request
    if not fits_in_float32(vlm):
        return None
    with in_float32(vlm) as exact:
        (readout,) = read_many(exact, [request], probes)
        if isinstance(readout, Exception):
            raise readout
        again = read_oracle(exact, sample, images, probes, like=readout, slack=2 * TOLERANCE[torch.float32])
        return max(compare(readout, again).values())


@contextmanager
def in_float32(vlm) -> Iterator[Any]:
    """The same model with its weights as float32, for a while; they are then what they were to the last bit."""
    tensors = {tensor: tensor.dtype for tensor in _half_tensors(vlm.model)}
    exact = copy(vlm)
    exact.dtype, exact.counters = torch.float32, copy(vlm.counters)
    try:
        for tensor in tensors:
            tensor.data = tensor.data.float()
        yield exact
    finally:
        for tensor, dtype in tensors.items():
            tensor.data = tensor.data.to(dtype)


def compare(one: Readout, other: Readout) -> dict[str, float]:
    """Largest absolute difference by part of the readout; states and vision tokens relative to their largest value."""
    long = np.maximum(1, other.n_tokens / 16)  # rounding adds up over the tokens of long options
    differences = {name: _difference(part / long, other.parts()[name] / long) for name, part in one.parts().items()}
    for name, taps in one.probes.items():
        for tap, vector in taps.items():
            differences[f"{name}.{tap}"] = _relative(vector, other.probes[name][tap])
    for index, (grid, expected) in enumerate(zip(one.vision, other.vision, strict=True)):
        differences[f"vision[{index}]"] = _relative(grid, expected)
    return differences


# --- beyond the tolerance ---------------------------------------------------------------------------------------------


def _beyond_tolerance(vlm, request: Request, readout: Readout, again: Readout) -> dict[str, float]:
    """Return the differences if rounding explains them; else raise VerifyError."""
    floor = rounding_floor(vlm, request, again)
    allowed = {kind: max(TOLERANCE[vlm.dtype], TIMES_ROUNDING * value) for kind, value in floor.items()}
    differences, again = _differences(vlm, request, readout, allowed["scores"])
    if _within(differences, {name: allowed[_kind(name)] for name in differences}):
        return differences
    name = max(differences, key=lambda name: differences[name] / allowed[_kind(name)])
    problem = (
        f"engine and oracle disagree on sample {request[0].id!r} with model {vlm.name!r}: {name} differs by "
        f"{differences[name]:.3g}, at most {allowed[_kind(name)]:.3g} is allowed for {vlm.dtype}, whose rounding moves "
        f"such numbers by {floor[_kind(name)]:.2g} here."
    )
    exact = exact_difference(vlm, request, bool(readout.probes)) if vlm.dtype != torch.float32 else None
    if exact is not None and exact <= TOLERANCE[torch.float32]:
        warnings.warn(f"{problem} In float32 they agree ({exact:.1g}), so it is rounding.", stacklevel=3)
        return differences
    if exact is None and _looks_like_rounding(differences, floor):
        raise VerifyError(
            f"{problem} It is small and everywhere, as rounding is, but more than expected: try dtype='float32', where "
            "a wrong adapter would still differ."
        )
    raise VerifyError(
        f"{problem} It is too large for rounding"
        + ("" if exact is None else f", and in float32 they differ as well ({exact:.3g})")
        + ". Nothing this model says can be trusted here: its adapter does not fit this checkpoint or this version of "
        "transformers."
    )


def _looks_like_rounding(differences: dict[str, float], floor: dict[str, float]) -> bool:
    """Small (not much above what is allowed) and everywhere (no part stands out from the others)."""
    of_rounding = np.array([value / max(floor[_kind(name)], 1e-12) for name, value in differences.items()])
    of_rounding = of_rounding[of_rounding > 0]
    return bool(of_rounding.max() <= 1.5 * TIMES_ROUNDING and of_rounding.max() <= 10 * np.median(of_rounding))


def _differences(vlm, request: Request, readout: Readout, allowed: float) -> tuple[dict[str, float], Readout]:
    """Differences by part, and the oracle's readout. Two tokens that a half type cannot tell apart may be chosen
    differently by the two; the oracle then follows the engine's choice, if its own best token is no better than the
    allowed differences of both can make it."""
    sample, images = request
    again = read_oracle(vlm, sample, images, bool(readout.probes), like=readout, slack=2 * allowed)
    return compare(readout, again), again


def _within(differences: dict[str, float], allowed: dict[str, float]) -> bool:
    return all(value <= allowed[name] for name, value in differences.items())  # false for NaN


def _by_kind(differences: dict[str, float]) -> dict[str, float]:
    kinds: dict[str, float] = {"scores": 0.0, "states": 0.0}
    for name, value in differences.items():
        kinds[_kind(name)] = max(kinds[_kind(name)], value)
    return kinds


def _kind(part: str) -> str:
    return "scores" if part.startswith(("logp", "n_tokens")) else "states"


@contextmanager
def _another_way(vlm) -> Iterator[None]:
    """Every forward pass of the whole model reads its row twice, side by side, with the plainest attention kernel."""

    def doubled(_, args, inputs):
        return args, {key: _twice(value) for key, value in inputs.items()}

    hook = vlm.model.register_forward_pre_hook(doubled, with_kwargs=True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        hook.remove()


def _twice(value: Any) -> Any:
    return torch.cat([value, value]) if isinstance(value, Tensor) else value


def _half_tensors(model) -> list[Tensor]:
    tensors = [*model.parameters(), *model.buffers()]
    return [tensor for tensor in tensors if tensor.dtype in (torch.bfloat16, torch.float16)]


def fits_in_float32(vlm) -> bool:
    devices = {parameter.device for parameter in vlm.model.parameters()}
    if getattr(vlm, "quantization", None) or devices != {vlm.device}:
        return False
    more = sum(2 * tensor.numel() for tensor in _half_tensors(vlm.model))
    if vlm.device.type == "cuda":
        return more * 1.5 < torch.cuda.mem_get_info(vlm.device)[0]
    return more * 1.5 < _free_memory()


def _free_memory() -> int:
    """Free memory of the machine in bytes; 0 where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError):
        return 0


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if one.shape != other.shape or (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    return float(np.nan_to_num(np.abs(one - other)).max(initial=0.0))


def _relative(one: np.ndarray, other: np.ndarray) -> float:
    return _difference(one, other) / max(1.0, float(np.abs(other).max(initial=0.0)))
