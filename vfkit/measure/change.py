"""What changed between a base and a perturbed readout, as columns of a record (HI 3.3, F.4; METHODS 7, 9, 10)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL.Image import Image

from vfkit.measure.spectrum import spectrum_against
from vfkit.readout.readout import Readout

Spectra = Sequence[Callable[[Image], dict[str, float]]]


def distances(one, other) -> tuple[np.ndarray, np.ndarray]:
    """Cosine distance 1 - cos and L2 distance of vectors [..., D], broadcast against each other (METHODS 7).

    Computed in float64. 1 - cos is half the squared distance of the unit vectors: nothing cancels, so it keeps its
    digits at the smallest drifts, and is exactly 0 for equal vectors. NaN where a vector is zero or holds a NaN.
    """
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return _squared(_unit(one) - _unit(other)) / 2, np.sqrt(_squared(one - other))


def dirichlet_energy(grid) -> tuple[float, int]:
    """Sum of squared L2 differences between 4-neighbours of a token grid [H, W, D], and their number of edges.

    Every edge counts once, in the type of the grid (float32 as it is read). A single token has no edges and energy 0
    (HI 3.3; METHODS 9).

    Raises:
        ValueError: not three axes.
    """
    grid = np.asarray(grid)
    grid = grid if grid.dtype.kind == "f" else grid.astype(np.float64)
    if grid.ndim != 3:
        raise ValueError(f"a grid of vision tokens has axes [H, W, D], not shape {grid.shape}")
    h, w, _ = grid.shape
    steps = grid[1:] - grid[:-1], grid[:, 1:] - grid[:, :-1]
    total = sum(np.einsum("hwd,hwd->hw", step, step).sum(dtype=np.float64) for step in steps)
    return float(total), (h - 1) * w + h * (w - 1)


def spectra_against(images: Sequence[Image], bands: str = "log") -> Spectra:
    """One `spectrum_against` per base image, whose transform is then computed once; `bands` names their edges."""
    return [spectrum_against(image, bands) for image in images]


def measures(readout: Readout, base: Readout, images: Sequence[Image], spectra: Spectra) -> dict[str, Any]:
    """All measured columns of a record: distances, smoothness, spectra, generated answers."""
    return from_base(readout, base) | smoothness(readout) | spectrum(images, spectra) | answers(readout)


def from_base(readout: Readout, base: Readout) -> dict[str, float]:
    """Cosine and L2 distance of every probe and tap from the sample's base (HI 3.3)."""
    row: dict[str, float] = {}
    for probe, taps in readout.probes.items():
        for tap, vector in taps.items():
            cosine, l2 = distances(vector, base.probes[probe][tap])
            row |= {f"cos_{probe}_{tap}": float(cosine), f"l2_{probe}_{tap}": float(l2)}
    return row


def smoothness(readout: Readout) -> dict[str, Any]:
    """Dirichlet energy of the vision tokens, the mean over images (HI 3.3); empty without images."""
    if not readout.vision:
        return {}
    energies = np.array([dirichlet_energy(grid) for grid in readout.vision], dtype=np.float64)  # [image, (sum, edges)]
    with np.errstate(invalid="ignore", divide="ignore"):  # a grid of one token has no edge
        per_edge = (energies[:, 0] / energies[:, 1]).mean()
    total, edges = energies.mean(axis=0)
    grid = "+".join(f"{grid.shape[0]}x{grid.shape[1]}" for grid in readout.vision)
    return {"dirichlet_sum": total, "dirichlet_edges": edges, "dirichlet": per_edge, "grid": grid}


def spectrum(images: Sequence[Image], spectra: Spectra) -> dict[str, float]:
    """Band powers and coherence with the base, the mean over images (HI F.4); empty without images."""
    if not images:
        return {}
    each = [against(image) for image, against in zip(images, spectra, strict=True)]
    return {name: float(np.mean([row[name] for row in each])) for name in each[0]}


def answers(readout: Readout) -> dict[str, str]:
    """The generated answers, one column per prompt."""
    return {f"text_{name}": text for name, text in readout.texts.items()}


def vectors(sample_id: str, instance: str, readout: Readout) -> list[dict[str, Any]]:
    """One row per probe and tap."""
    return [
        {"sample_id": sample_id, "instance": instance, "probe": probe, "tap": tap, "vector": vector}
        for probe, taps in readout.probes.items()
        for tap, vector in taps.items()
    ]


def _unit(vectors: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # a zero vector has no direction
        return vectors / np.sqrt(_squared(vectors))[..., None]


def _squared(vectors: np.ndarray) -> np.ndarray:
    return np.einsum("...d,...d->...", vectors, vectors)
