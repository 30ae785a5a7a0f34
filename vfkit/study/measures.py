"""From what a model holds to the numbers of a record: distances from the base, smoothness, spectra (HI 3.3, F.4)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL.Image import Image

from vfkit.metrics.dirichlet import dirichlet_energy
from vfkit.metrics.drift import distances
from vfkit.metrics.spectrum import spectrum_against
from vfkit.readout.readout import Readout

Spectra = Sequence[Callable[[Image], dict[str, float]]]


def spectra_against(images: Sequence[Image]) -> Spectra:
    """One function per base image, with the base's transform done once."""
    return [spectrum_against(image) for image in images]


def measures(readout: Readout, base: Readout, images: Sequence[Image], spectra: Spectra) -> dict[str, Any]:
    """The columns of a record that say what moved inside, and in the pixels."""
    return from_base(readout, base) | smoothness(readout) | spectrum(images, spectra) | answers(readout)


def from_base(readout: Readout, base: Readout) -> dict[str, float]:
    """Cosine and L2 distance of every probe and tap from the sample's base (HI 3.3)."""
    row = {}
    for probe, taps in readout.probes.items():
        for tap, vector in taps.items():
            cosine, l2 = distances(vector, base.probes[probe][tap])
            row |= {f"cos_{probe}_{tap}": float(cosine), f"l2_{probe}_{tap}": float(l2)}
    return row


def smoothness(readout: Readout) -> dict[str, Any]:
    """Dirichlet energy of the vision tokens, the mean over images (HI 3.3); nothing where no image was read."""
    if not readout.vision:
        return {}
    energies = np.array([dirichlet_energy(grid) for grid in readout.vision], dtype=np.float64)  # [image, (sum, edges)]
    with np.errstate(invalid="ignore", divide="ignore"):  # a grid of one token has no edge
        per_edge = (energies[:, 0] / energies[:, 1]).mean()
    total, edges = energies.mean(axis=0)
    grid = "+".join(f"{grid.shape[0]}x{grid.shape[1]}" for grid in readout.vision)
    return {"dirichlet_sum": total, "dirichlet_edges": edges, "dirichlet": per_edge, "grid": grid}


def spectrum(images: Sequence[Image], spectra: Spectra) -> dict[str, float]:
    """Band powers and coherence with the base, the mean over images (HI F.4); nothing where there is no image."""
    if not images:
        return {}
    each = [against(image) for image, against in zip(images, spectra, strict=True)]
    return {name: float(np.mean([row[name] for row in each])) for name in each[0]}


def answers(readout: Readout) -> dict[str, str]:
    return {f"text_{name}": text for name, text in readout.texts.items()}


def vectors(sample_id: str, instance: str, readout: Readout) -> list[dict[str, Any]]:
    """One row per probe and tap."""
    return [
        {"sample_id": sample_id, "instance": instance, "probe": probe, "tap": tap, "vector": vector}
        for probe, taps in readout.probes.items()
        for tap, vector in taps.items()
    ]
