"""Every run checks itself: engine against oracle on its own first samples, with the real model in use."""

import numpy as np
import torch

from vfkit.readout.engine import Request
from vfkit.readout.oracle import read_oracle
from vfkit.readout.readout import Readout

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.bfloat16: 0.15, torch.float16: 0.03}
"""Largest difference allowed in any number of a readout, by the model's type.

float32: the two differ by the order of sums alone. Half types keep 8 (bfloat16) or 11 (float16) significant bits, so
states of order 1 and log-probabilities of order 10 differ in the last one or two of them. On random models of three
layers, of every architecture, the largest difference in bfloat16 is 0.03; rounding adds up over layers like a random
walk, so over 80 of them it is about sqrt(80 / 3) = 5 times that, 0.15. Positions counted wrongly, or a window that is
not there, move numbers on the same models by 0.5 to 2. Finer mistakes (an image's tokens seen one way only: 0.15) show
in float32 alone: new architectures, and new versions of the library, are to be tried in it first.
"""


class VerifyError(RuntimeError):
    """Engine and oracle disagree: numbers read with this model would be wrong."""


def verify(vlm, requests: list[Request], readouts: list[Readout]) -> float:
    """Read every request again by the oracle; returns the largest difference found.

    Two tokens that a half type cannot tell apart may be chosen differently by the two; the oracle then follows the
    engine's choice, if its own best token is no better than the allowed differences of both can make it.

    Raises:
        VerifyError: a part of a score, a probe or a vision token differs by more than `TOLERANCE` allows.
    """
    allowed = TOLERANCE[vlm.dtype]
    worst = 0.0
    for (sample, images), readout in zip(requests, readouts, strict=True):
        again = read_oracle(vlm, sample, images, bool(readout.probes), like=readout, slack=2 * allowed)
        differences = compare(readout, again)
        name = max(differences, key=differences.get)
        worst = max(worst, differences[name])
        if not differences[name] <= allowed:
            raise VerifyError(
                f"engine and oracle disagree on sample {sample.id!r} with model {vlm.name!r}: {name} differs by "
                f"{differences[name]:.3g}, at most {allowed:g} is allowed for {vlm.dtype}. Nothing this model says can "
                "be trusted here: its adapter does not fit this checkpoint or this version of transformers."
            )
    return worst


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


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if one.shape != other.shape or (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    return float(np.nan_to_num(np.abs(one - other)).max(initial=0.0))


def _relative(one: np.ndarray, other: np.ndarray) -> float:
    return _difference(one, other) / max(1.0, float(np.abs(other).max(initial=0.0)))
