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
from vfkit.metrics.spectral import (
    ablation_table,
    attack_table,
    audit_table,
    band_test,
    noise_table,
    threshold_table,
    thresholds,
    trace_table,
)
from vfkit.metrics.spectrum import (
    band_edges,
    band_power,
    phase_coherence,
    spectrum_against,
    spectrum_of,
    spectrum_table,
)
from vfkit.metrics.summary import finding

__all__ = [
    "UNION",
    "ablation_table",
    "accuracy_table",
    "attack_table",
    "audit_table",
    "band_edges",
    "band_power",
    "band_test",
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
    "noise_table",
    "overlay_table",
    "phase_coherence",
    "rescore",
    "rule_table",
    "sample_drift",
    "spectrum_against",
    "spectrum_of",
    "spectrum_table",
    "threshold_table",
    "thresholds",
    "trace_table",
    "transition_table",
]
