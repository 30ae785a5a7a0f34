"""Scores corrected for the prior (vfkit.metrics.prior) on scores made by hand and on worlds whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from vfkit import figures, metrics


def row(sample, family, instance, scores, answer=0, category="c"):
    parts = dict(logp_text=list(scores), logp_end=[0.0] * len(scores), n_tokens=[1] * len(scores))
    about = dict(sample_id=sample, image_id=sample, family=family, instance=instance, applicable=True, tied=False)
    about |= dict(category=category, answer=answer, n_options=len(scores), prediction=int(np.argmax(scores)))
    return about | parts | dict(logp_letter=[np.nan] * len(scores), margin=1.0, base_margin=1.0)


def world(rng, seen, images=60, options=4):
    """Scores are a preference that every sample has without its image, and `seen` nats for the true option with it."""
    rows = []
    for i in range(images):
        prior, truth = rng.normal(0, 2, options), int(rng.integers(options))
        added = seen * np.eye(options)[truth]
        rows.append(row(f"s{i}", "base", "base", prior + added + rng.normal(0, 0.1, options), truth))
        rows.append(row(f"s{i}", "blank", "blank_white", prior, truth))
        for j in range(3):
            rows.append(row(f"s{i}", "rotation", f"rotation_{j}", prior + 0.5 * added + rng.normal(0, 0.1, 4), truth))
    return pd.DataFrame(rows)


def test_corrected_answers_and_reliance_by_hand():
    rows = [
        # the image adds 2 nats to B, yet the prior's A still wins; corrected, B does
        row("s0", "base", "base", [-1.0, -2.0, -6.0], 1),
        row("s0", "blank", "blank_white", [-1.0, -4.0, -6.0], 1),
        row("s0", "rotation", "rotation_+30", [-1.5, -1.0, -6.0], 1),
        # two options; the blank says B, the image A
        row("s1", "base", "base", [-1.0, -3.0], 0, "d"),
        row("s1", "blank", "blank_white", [-3.0, -1.0], 0, "d"),
        row("s1", "rotation", "rotation_+30", [-4.0, -1.5], 0, "d"),
    ]
    records = pd.DataFrame(rows)
    table = metrics.reliance_table(records).set_index("category")
    assert table.index.tolist() == ["all", "c", "d"] and set(table.fill) == {"white"}
    whole = table.loc["all"]
    assert whole.same_rate == 0.5 and whole.accuracy == 0.5 and whole.blank_accuracy == 0
    assert (
        whole.corrected_accuracy == 1
        and whole.accuracy_gain == 0.5
        and whole.chance == pytest.approx((1 / 3 + 1 / 2) / 2)
    )
    assert table.loc["c"].evidence == 0 and table.loc["d"].evidence == 2
    p, q = softmax([-1.0, -3.0]), softmax([-3.0, -1.0])
    assert table.loc["d"].information == pytest.approx((p * np.log(p / q)).sum())
    flips = metrics.corrected_flip_table(records).set_index("family").loc["rotation"]
    # s0: plain A -> B, corrected B -> B; s1: plain A -> B, corrected A -> B (-1 against -0.5)
    assert flips.IFR == 1 and flips.corrected_IFR == 0.5 and flips.difference == -0.5
    assert flips.same_IFR == 1 and flips.other_IFR == 1 and flips.to_blank_share == 1 and flips.chance_share == 1


def test_a_model_that_ignores_the_image_relies_on_nothing_and_one_that_looks_does():
    blind, seeing = (metrics.reliance_table(world(np.random.default_rng(0), seen)) for seen in (0.0, 8.0))
    blind, seeing = (table.set_index("category").loc["all"] for table in (blind, seeing))
    assert (
        blind.same_rate > 0.9
        and abs(blind.accuracy_gain) < 0.1
        and blind.accuracy_gain_low <= 0 <= blind.accuracy_gain_high
    )
    assert blind.information < 0.05 and blind.evidence_low < 0.1
    assert seeing.same_rate < 0.5 and seeing.accuracy_gain_low > 0.3 and seeing.evidence_low > 3
    weak = metrics.reliance_table(world(np.random.default_rng(1), 1.5)).set_index("category").loc["all"]
    assert weak.corrected_difference_low > 0  # where the prior is in the way, taking it off helps


def test_flips_of_answers_that_need_the_image_go_to_the_blank():
    table = metrics.corrected_flip_table(world(np.random.default_rng(2), 4.0)).set_index("family").loc["rotation"]
    assert table.other_IFR > table.same_IFR == 0 and table.to_blank_share > 0.9 > table.chance_share
    assert table.difference_high < 0  # corrected answers are steadier here: only the prior pulled them away


def test_what_has_no_blank_or_no_choice_is_left_out():
    records = world(np.random.default_rng(3), 4.0, images=8)
    short = records[(records.sample_id != "s0") | (records.family != "blank")]
    assert metrics.reliance_table(short).samples[0] == 7 and metrics.corrected_flip_table(short).samples[0] == 7
    single = [row("one", family, family + end, [-1.0]) for family, end in (("base", ""), ("blank", "_white"))]
    both = pd.concat([records, pd.DataFrame(single)], ignore_index=True)
    pd.testing.assert_frame_equal(metrics.reliance_table(both), metrics.reliance_table(records))
    with pytest.raises(ValueError, match="no blank 'grey'"):
        metrics.reliance_table(records, fill="grey")
    more = records[records.family == "blank"].assign(instance="blank_none")
    assert (
        metrics.reliance_table(pd.concat([records, more], ignore_index=True)).fill.tolist()
        == ["none"] * 2 + ["white"] * 2
    )
    assert "answers stay the same" in metrics.reliance_finding(metrics.reliance_table(records))


def test_the_figures_show_the_tables():
    records = world(np.random.default_rng(4), 4.0, images=20)
    reliance, flips = metrics.reliance_table(records), metrics.corrected_flip_table(records)
    right, nats = figures.plot_reliance(reliance).axes
    np.testing.assert_allclose(right.lines[0].get_xdata(), 100 * reliance.accuracy)
    assert "nats" in nats.get_xlabel()
    plain, split = figures.plot_corrected_flips(flips).axes
    np.testing.assert_allclose(plain.lines[1].get_xdata(), 100 * flips.corrected_IFR)
    np.testing.assert_allclose(split.lines[1].get_xdata(), 100 * flips.other_IFR)
