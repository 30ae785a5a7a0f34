"""Records in, tidy tables out: no model, no files. Every table carries its n and its intervals."""

from vfkit.measure import (
    band_edges,
    band_power,
    dirichlet_energy,
    distances,
    phase_coherence,
    spectrum_against,
    spectrum_of,
)
from vfkit.metrics.attribution import attribution_finding
from vfkit.metrics.bands import band_finding, band_test, louder
from vfkit.metrics.calibration import (
    calibration_finding,
    calibration_table,
    confidence_rows,
    flip_confidence_table,
    reliability_table,
    risk_table,
    temperature_table,
)
from vfkit.metrics.causes import (
    edit_reasons,
    handover,
    knockout_contrasts,
    knockout_table,
    patch_contrasts,
    patch_table,
)
from vfkit.metrics.controls import control_distances
from vfkit.metrics.drift import (
    drift_summary,
    drift_table,
    embedding_table,
    sample_drift,
)
from vfkit.metrics.effects import cohens_d
from vfkit.metrics.energy import dirichlet_table, inside_correlations, spectrum_table
from vfkit.metrics.flips import (
    accuracy_table,
    compare_table,
    compliance_table,
    flip_table,
    margin_table,
    overlay_table,
    transition_table,
)
from vfkit.metrics.frames import ANSWERS, UNION, pooled_family
from vfkit.metrics.frequency import (
    ablation_table,
    attack_table,
    audit_table,
    noise_table,
    threshold_table,
    thresholds,
    trace_table,
)
from vfkit.metrics.layers import (
    attention_outcomes,
    attention_table,
    crossover_table,
    crossovers,
    layer_drift_table,
    lens_table,
)
from vfkit.metrics.pope import (
    by_case,
    pope_answers,
    pope_margin_table,
    pope_table,
    pope_transition_table,
    prior_drift_table,
    prior_table,
    question_priors,
)
from vfkit.metrics.prior import corrected_flip_table, prior_rows, reliance_finding, reliance_table
from vfkit.metrics.radius import flipping_eps, radius_rows, radius_table, sensitivity_table
from vfkit.metrics.runs import across_runs
from vfkit.metrics.scaling import (
    by_model,
    rank_agreement,
    scale_differences,
    scale_summary,
    shared_samples,
    size_name,
)
from vfkit.metrics.scores import rescore, rule_table
from vfkit.metrics.severity import onset_table, severity_finding, severity_table
from vfkit.metrics.smoothness import smoothness_finding, smoothness_table
from vfkit.metrics.summary import finding, scale_finding
from vfkit.metrics.verdict import pope_balance_table, verdict, verdict_table
from vfkit.metrics.vfat import vfat_answers, vfat_answers_of, vfat_scores, vfat_table, vrs
from vfkit.metrics.vfat_compare import (
    vfat_correlations,
    vfat_differences,
    vfat_interaction,
    vfat_pressure,
    vfat_scaling,
    vfat_transitions,
)
from vfkit.metrics.vfat_inside import vfat_drift, vfat_moves
from vfkit.metrics.vfat_summary import vfat_finding

__all__ = [
    "ANSWERS",
    "UNION",
    "ablation_table",
    "accuracy_table",
    "across_runs",
    "attack_table",
    "attention_outcomes",
    "attention_table",
    "attribution_finding",
    "audit_table",
    "band_edges",
    "band_finding",
    "band_power",
    "band_test",
    "by_case",
    "by_model",
    "calibration_finding",
    "calibration_table",
    "cohens_d",
    "compare_table",
    "compliance_table",
    "confidence_rows",
    "control_distances",
    "crossover_table",
    "crossovers",
    "corrected_flip_table",
    "dirichlet_energy",
    "dirichlet_table",
    "distances",
    "drift_summary",
    "drift_table",
    "edit_reasons",
    "embedding_table",
    "finding",
    "flip_confidence_table",
    "flip_table",
    "flipping_eps",
    "handover",
    "inside_correlations",
    "knockout_contrasts",
    "knockout_table",
    "layer_drift_table",
    "lens_table",
    "louder",
    "margin_table",
    "noise_table",
    "onset_table",
    "overlay_table",
    "patch_contrasts",
    "patch_table",
    "phase_coherence",
    "pooled_family",
    "pope_answers",
    "pope_balance_table",
    "pope_margin_table",
    "pope_table",
    "pope_transition_table",
    "prior_drift_table",
    "prior_rows",
    "prior_table",
    "question_priors",
    "radius_rows",
    "radius_table",
    "rank_agreement",
    "reliability_table",
    "reliance_finding",
    "reliance_table",
    "rescore",
    "risk_table",
    "rule_table",
    "sample_drift",
    "scale_differences",
    "scale_finding",
    "scale_summary",
    "sensitivity_table",
    "severity_finding",
    "severity_table",
    "shared_samples",
    "size_name",
    "smoothness_finding",
    "smoothness_table",
    "spectrum_against",
    "spectrum_of",
    "spectrum_table",
    "temperature_table",
    "threshold_table",
    "thresholds",
    "trace_table",
    "transition_table",
    "verdict",
    "verdict_table",
    "vfat_answers",
    "vfat_answers_of",
    "vfat_correlations",
    "vfat_differences",
    "vfat_drift",
    "vfat_finding",
    "vfat_interaction",
    "vfat_moves",
    "vfat_pressure",
    "vfat_scaling",
    "vfat_scores",
    "vfat_table",
    "vfat_transitions",
    "vrs",
]
