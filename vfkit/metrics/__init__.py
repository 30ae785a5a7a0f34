"""Records in, tidy tables out: no model, no files. Every table carries its n and its intervals."""

from vfkit.metrics.dirichlet import dirichlet_energy, dirichlet_table, inside_correlations
from vfkit.metrics.drift import (
    cohens_d,
    control_distances,
    distances,
    drift_summary,
    drift_table,
    embedding_table,
    sample_drift,
)
from vfkit.metrics.labels import (
    UNION,
    accuracy_table,
    compare_table,
    flip_table,
    margin_table,
    overlay_table,
    rescore,
    rule_table,
    transition_table,
)
from vfkit.metrics.pope import (
    by_case,
    pope_margin_table,
    pope_table,
    pope_transition_table,
    prior_drift_table,
    prior_table,
    question_priors,
)
from vfkit.metrics.runs import across_runs
from vfkit.metrics.spectrum import (
    band_edges,
    band_power,
    phase_coherence,
    spectrum_against,
    spectrum_of,
    spectrum_table,
)
from vfkit.metrics.summary import finding
from vfkit.metrics.verdict import verdict, verdict_table

__all__ = [
    "UNION",
    "accuracy_table",
    "across_runs",
    "band_edges",
    "band_power",
    "by_case",
    "cohens_d",
    "compare_table",
    "control_distances",
    "dirichlet_energy",
    "dirichlet_table",
    "distances",
    "drift_summary",
    "drift_table",
    "embedding_table",
    "finding",
    "flip_table",
    "inside_correlations",
    "margin_table",
    "overlay_table",
    "phase_coherence",
    "pope_margin_table",
    "pope_table",
    "pope_transition_table",
    "prior_drift_table",
    "prior_table",
    "question_priors",
    "rescore",
    "rule_table",
    "sample_drift",
    "spectrum_against",
    "spectrum_of",
    "spectrum_table",
    "transition_table",
    "verdict",
    "verdict_table",
]
