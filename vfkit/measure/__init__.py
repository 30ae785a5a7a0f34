"""What is measured of one readout against its base: distances of states, smoothness of vision tokens, spectra."""

from vfkit.measure.change import dirichlet_energy, distances
from vfkit.measure.spectrum import (
    BANDS,
    MEASURES,
    band_edges,
    band_power,
    phase_coherence,
    spectrum_against,
    spectrum_of,
)

__all__ = [
    "BANDS",
    "MEASURES",
    "band_edges",
    "band_power",
    "dirichlet_energy",
    "distances",
    "phase_coherence",
    "spectrum_against",
    "spectrum_of",
]
