"""Tables in, matplotlib axes out; `save` writes a figure as PNG and PDF with the numbers drawn beside it."""

from vfkit.figures.attribution import (
    plot_attention,
    plot_knockout,
    plot_layer_drift,
    plot_lens,
    plot_patching,
    plot_radius,
)
from vfkit.figures.calibration import plot_calibration, plot_reliability
from vfkit.figures.drift import plot_drift, plot_drift_histograms, plot_embedding
from vfkit.figures.energy import plot_dirichlet, plot_spectrum
from vfkit.figures.flips import plot_flips, plot_gallery, plot_margins, plot_transitions
from vfkit.figures.frequency import (
    plot_ablation,
    plot_adversarial,
    plot_attacks,
    plot_noise,
    plot_smoothness,
    plot_traces,
)
from vfkit.figures.pope import (
    plot_inside_cases,
    plot_pope,
    plot_pope_balance,
    plot_pope_margins,
    plot_pope_transitions,
    plot_prior_drift,
    plot_priors,
)
from vfkit.figures.prior import plot_corrected_flips, plot_reliance
from vfkit.figures.report import plot_models, plot_published, plot_transition_grid, plot_verdicts
from vfkit.figures.scaling import plot_ranks, plot_scale, plot_scale_differences
from vfkit.figures.severity import plot_onsets, plot_severity
from vfkit.figures.style import save, styled
from vfkit.figures.vfat import (
    plot_outcome_pairs,
    plot_outcomes,
    plot_vfat_categories,
    plot_vfat_gallery,
    plot_vfat_radar,
    plot_vrs,
)

__all__ = [
    "plot_ablation",
    "plot_adversarial",
    "plot_attacks",
    "plot_attention",
    "plot_calibration",
    "plot_corrected_flips",
    "plot_dirichlet",
    "plot_drift",
    "plot_drift_histograms",
    "plot_embedding",
    "plot_flips",
    "plot_gallery",
    "plot_inside_cases",
    "plot_knockout",
    "plot_layer_drift",
    "plot_lens",
    "plot_margins",
    "plot_models",
    "plot_noise",
    "plot_onsets",
    "plot_outcome_pairs",
    "plot_outcomes",
    "plot_patching",
    "plot_pope",
    "plot_pope_balance",
    "plot_pope_margins",
    "plot_pope_transitions",
    "plot_prior_drift",
    "plot_priors",
    "plot_published",
    "plot_radius",
    "plot_ranks",
    "plot_reliability",
    "plot_reliance",
    "plot_scale",
    "plot_scale_differences",
    "plot_severity",
    "plot_spectrum",
    "plot_smoothness",
    "plot_traces",
    "plot_transition_grid",
    "plot_transitions",
    "plot_verdicts",
    "plot_vfat_categories",
    "plot_vfat_gallery",
    "plot_vfat_radar",
    "plot_vrs",
    "save",
    "styled",
]
