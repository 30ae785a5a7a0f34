"""Natural perturbations (HI A.6): pure functions on RGB images, and suites of them as data."""

from vfkit.perturb.geometric import NotApplicable
from vfkit.perturb.severity import SEVERITY
from vfkit.perturb.suite import ATTACKS, COPIES, HI_FAMILIES, NATURAL_FAMILIES, Suite, natural_suite

__all__ = [
    "ATTACKS",
    "COPIES",
    "HI_FAMILIES",
    "NATURAL_FAMILIES",
    "NotApplicable",
    "SEVERITY",
    "Suite",
    "natural_suite",
]
