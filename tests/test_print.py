"""Figures in print: at the width of a column or a page, each is legible, in grey too (drawn from stored runs)."""

from functools import partial

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import stored
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.text import Text

from vfkit import figures, metrics, paper
from vfkit.figures.style import COLUMN, PAGE, SMALL

matplotlib.use("Agg")
RECORDS = stored.ONE[0]
BESIDE = partial(paper.beside, model="qwen3vl_2b")
ATTACK = stored.frames(stored.ATTACK, "records", "vectors", "controls")


def _own(table):
    return table[(table.distance == "cos") & (table.tap == "post_norm")]


def _pope(make, table):
    return make(table(metrics.pope_answers(*stored.YES_NO)))


def _scale(*columns):
    frames = [stored.several(kind) for kind in ("records", "vectors", "controls")]
    table = metrics.scale_summary(frames[0], stored.MODELS, *frames[1:])
    return figures.plot_scale(paper.beside_scale(table, stored.MODELS.assign(hub="")), columns)


def _vfat(make, by=("format", "level"), *more):
    answers = stored.answers(*stored.BOTH)
    return make(metrics.vfat_scores(answers, list(by)), *(one(answers) for one in more))


def _said(_):
    return paper.neighbours([], "vfat", "Qwen3-VL-8B")


def _cases():
    frames = {kind: stored.frame(stored.POPE, kind) for kind in ("vectors", "controls")}
    drift = metrics.by_case(metrics.drift_table, *stored.YES_NO, **frames)
    return figures.plot_inside_cases(drift, metrics.by_case(metrics.dirichlet_table, *stored.YES_NO))


def _ranks():
    records = stored.several("records")
    flips = metrics.by_model(metrics.flip_table, records, stored.MODELS)
    return figures.plot_ranks(flips, metrics.rank_agreement(records, stored.MODELS))


NOISE = stored.NOISE[0]
DRAWN = {
    "flips": lambda: figures.plot_flips(BESIDE(metrics.flip_table(RECORDS))),
    "transitions": lambda: figures.plot_transitions(BESIDE(metrics.transition_table(RECORDS))),
    "margins": lambda: figures.plot_margins(metrics.margin_table(RECORDS)),
    "histograms": lambda: figures.plot_drift_histograms(metrics.sample_drift(*stored.INSIDE), threshold=0.02),
    "drift": lambda: figures.plot_drift(_own(BESIDE(metrics.drift_summary(*stored.INSIDE)))),
    "dirichlet": lambda: figures.plot_dirichlet(BESIDE(metrics.dirichlet_table(RECORDS))),
    "spectrum": lambda: figures.plot_spectrum(metrics.spectrum_table(RECORDS)),
    "calibration": lambda: figures.plot_calibration(
        metrics.calibration_table(RECORDS), metrics.flip_confidence_table(RECORDS)
    ),
    "reliability": lambda: figures.plot_reliability(metrics.reliability_table(RECORDS), metrics.risk_table(RECORDS)),
    "noise": lambda: figures.plot_noise(metrics.noise_table(NOISE), 0.0),
    "ablation": lambda: figures.plot_ablation(metrics.ablation_table(NOISE), metrics.threshold_table(NOISE)),
    "attacks": lambda: figures.plot_attacks(BESIDE(metrics.attack_table(ATTACK[0]))),
    "traces": lambda: figures.plot_traces(metrics.trace_table(ATTACK[0])),
    "attack_drift": lambda: figures.plot_drift(metrics.drift_table(*ATTACK), control="same_question"),
    "pope": lambda: _pope(figures.plot_pope, metrics.pope_table),
    "pope_transitions": lambda: _pope(figures.plot_pope_transitions, metrics.pope_transition_table),
    "balance": lambda: _pope(figures.plot_pope_balance, metrics.pope_balance_table),
    "prior_drift": lambda: _pope(figures.plot_prior_drift, metrics.prior_drift_table),
    "pope_margins": lambda: _pope(figures.plot_pope_margins, metrics.pope_margin_table),
    "priors": lambda: _pope(figures.plot_priors, metrics.question_priors),
    "cases": _cases,
    "scale": lambda: _scale("accuracy", "overlay_IFR", "union_IV"),
    "scale_transitions": lambda: _scale("R->W_rate", "W->R_rate"),
    "scale_drift": lambda: _scale("percent_kept", "percent_flipped", "hidden"),
    "differences": lambda: figures.plot_scale_differences(
        metrics.scale_differences(stored.several("records"), stored.MODELS)
    ),
    "ranks": _ranks,
    "radar": lambda: _vfat(figures.plot_vfat_radar, ("format", "level"), _said),
    "vrs": lambda: _vfat(figures.plot_vrs, ("format", "level"), _said),
    "outcomes": lambda: _vfat(figures.plot_outcomes, ("format", "level"), _said),
    "pairs": lambda: _vfat(figures.plot_outcome_pairs),
    "categories": lambda: _vfat(figures.plot_vfat_categories, ["category"]),
}
PLAIN = {"spectrum", "ranks", "priors", "histograms", "pairs"}  # without intervals


def _texts(fig) -> dict[Text, np.ndarray]:
    """What is written and to be seen, with its box."""
    unseen = set()
    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                    unseen |= {tick.label1, tick.label2}
    found = [text for text in fig.findobj(Text) if text.get_visible() and text.get_text().strip()]
    drawn = [text for text in found if text not in unseen]
    return {text: text.get_window_extent().extents for text in drawn}


def _look(handle) -> tuple:
    """What a series' mark looks like where colours cannot be told."""
    if isinstance(handle, Line2D):
        hollow = str(handle.get_markerfacecolor()) == "none"
        return handle.get_marker(), handle.get_linestyle(), hollow, handle.get_markersize(), handle.get_linewidth()
    face = round(float(np.dot(to_rgb(handle.get_facecolor()), (0.2126, 0.7152, 0.0722))), 1)
    return handle.get_hatch(), str(handle.get_linestyle()), face, handle.get_fill()


@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_legible_in_print_and_in_grey(name):
    fig = DRAWN[name]()
    fig.canvas.draw()
    assert fig.get_figwidth() in (COLUMN, PAGE) and fig.get_figheight() < 9.5
    texts = _texts(fig)
    assert min(text.get_fontsize() for text in texts) >= SMALL
    boxes, names = np.array(list(texts.values())), [text.get_text() for text in texts]
    inside = (boxes[:, :2] >= -1).all() and (boxes[:, 2:] <= np.array(fig.bbox.size) + 1).all()
    assert inside, [one for one, box in zip(names, boxes, strict=True) if box[0] < -1 or box[2] > fig.bbox.width + 1]
    low, high = np.maximum(boxes[:, None, :2], boxes[None, :, :2]), np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    covered = np.triu(((high - low) > 1).all(axis=2), 1)
    assert not covered.any(), [(names[i], names[j]) for i, j in np.argwhere(covered)]
    for legend in fig.legends:
        looks = [_look(handle) for handle in legend.legend_handles]
        assert len(set(looks)) == len(looks), [text.get_text() for text in legend.get_texts()]
        lines = [handle for handle in legend.legend_handles if isinstance(handle, Line2D)]
        grey = [float(np.dot(to_rgb(line.get_color()), (0.2126, 0.7152, 0.0722))) for line in lines]
        assert max(grey, default=0) < 0.7, "a line is too pale to be seen in grey"
    said = " ".join([*names, *(text.get_text() for legend in fig.legends for text in legend.get_texts())])
    assert "n = " in said and ("95 % interval" in said or name in PLAIN)
    plt.close(fig)


def test_published_marks_of_two_series_differ():
    fig = DRAWN["transitions"]()
    marks = {line.get_label(): line.get_marker() for line in fig.axes[1].lines if "published" in line.get_label()}
    assert len(marks) == 2 and len(set(marks.values())) == 2
    plt.close(fig)


def test_bars_end_on_the_axis():
    for name in ("outcomes", "drift", "transitions", "vrs"):
        fig = DRAWN[name]()
        for ax in fig.axes:
            low, high = ax.get_xlim()
            ends = [segment[:, 0] for part in ax.collections for segment in part.get_segments() if len(segment)]
            assert all(low <= end.min() and end.max() <= high for end in ends), name
        plt.close(fig)
