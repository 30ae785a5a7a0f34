"""Calibration (vfkit.metrics.calibration) on scores whose calibration is known."""

import numpy as np
import pandas as pd
import pytest

from vfkit import figures, metrics, output
from vfkit.metrics import calibration


def row(sample, family, instance, scores, answer, base=0):
    best = int(np.argmax(scores))
    parts = dict(logp_text=list(scores), logp_end=[0.0] * len(scores), n_tokens=[1] * len(scores))
    about = dict(sample_id=sample, image_id=sample, family=family, instance=instance, applicable=True, tied=False)
    about |= dict(answer=answer, n_options=len(scores), prediction=best, base_prediction=base)
    return about | parts | dict(logp_letter=[np.nan] * len(scores), margin=1.0, base_margin=1.0)


def world(rng, images=200, base=1.0, perturbed=1.0, instances=1, options=4):
    """Records whose answers are right with probability p and whose scores are log p times a sharpness.

    Sharpness 1 is calibrated; 2 is too sure, and a temperature of 2 undoes it.
    """
    rows = []
    for i in range(images):
        p = rng.dirichlet([0.5] * options)
        answer, scores = int(rng.choice(options, p=p)), np.log(np.maximum(p, 1e-9))
        rows.append(row(f"s{i}", "base", "base", base * scores, answer, int(p.argmax())))
        for j in range(instances):
            rows.append(row(f"s{i}", "scale", f"scale_{j}", perturbed * scores, answer, int(p.argmax())))
    return pd.DataFrame(rows)


@pytest.fixture
def by_hand():
    """Two options; confidences 0.9, 0.9, 0.6, 0.6, 0.8 of which the first, third and fifth answers are right."""
    confidence, right = [0.9, 0.9, 0.6, 0.6, 0.8], [True, False, True, False, True]
    rows = []
    for i, (c, ok) in enumerate(zip(confidence, right, strict=True)):
        rows.append(row(f"s{i}", "base", "base", np.log([c, 1 - c]), 0 if ok else 1))
        rows.append(row(f"s{i}", "scale", "scale_0.9", np.log([c, 1 - c] if i < 4 else [0.3, 0.7]), 0 if ok else 1))
    return pd.DataFrame(rows)


def test_ece_brier_and_aurc_by_hand(by_hand):
    table = metrics.calibration_table(by_hand).set_index("family")
    base, scale = table.loc["base"], table.loc["scale"]
    assert base.accuracy == pytest.approx(0.6) and base.confidence == pytest.approx(0.76)
    # bins (0.5, 0.6], (0.7, 0.8], (0.8, 0.9]: 2 |0.6 - 0.5|, |0.8 - 1|, 2 |0.9 - 0.5|, over 5
    assert base.ECE == pytest.approx((0.2 + 0.2 + 0.8) / 5) and base.gap == pytest.approx(0.16)
    squared = [0.01, 0.81, 0.16, 0.36, 0.04]
    assert base.Brier == pytest.approx(2 * np.mean(squared))
    # the two at 0.9 are tied, one of them right: half an error each; then 0.8 right; then the two at 0.6
    assert base.AURC == pytest.approx(np.mean([0.5 / 1, 1 / 2, 1 / 3, 1.5 / 4, 2 / 5]))
    assert scale.gap_change == pytest.approx((0.7 - 0.8 + 1) / 5)  # of the fifth only: the answer is now wrong
    flips = metrics.flip_confidence_table(by_hand).set_index("family").loc["scale"]
    assert (
        flips.flips == 1
        and flips.confidence_flipped == pytest.approx(0.7)
        and flips.base_confidence_flipped == pytest.approx(0.8)
    )
    assert flips.sure_rate == 0 and flips.AUROC == pytest.approx(0.5)  # two of the four kept were surer, two less sure
    risk = metrics.risk_table(by_hand).set_index(["family", "coverage"]).risk
    assert risk["base", 0.2] == risk["base", 0.4] == 0.5 and risk["base", 1.0] == pytest.approx(0.4)
    bins = metrics.reliability_table(by_hand).set_index(["family", "bin"])
    assert bins.loc[("base", 8)].accuracy == 0.5 and bins.loc[("base", 8), "confidence"] == pytest.approx(0.9)
    assert bins.loc["base"].instances.sum() == 5


def test_what_lacks_an_answer_or_a_choice_is_left_out_and_counted(by_hand):
    first = by_hand.sample_id == "s0"
    table = metrics.calibration_table(by_hand.assign(answer=by_hand.answer.where(~first))).set_index("family")
    assert table.loc["base"].instances == 4 and table.loc["base"].no_answer == 1
    single = pd.DataFrame([row("one", "base", "base", [-1.0], 0), row("one", "scale", "scale_0.9", [-2.0], 0)])
    both = pd.concat([by_hand, single], ignore_index=True)
    pd.testing.assert_frame_equal(metrics.calibration_table(both), metrics.calibration_table(by_hand))


def test_the_temperature_is_the_sharpness_and_is_fitted_on_base_images_only():
    rng = np.random.default_rng(0)
    records = world(rng, 600, base=2.0, perturbed=8.0)
    fitted = metrics.temperature_table(records).iloc[0]
    assert fitted.temperature_low < 2 < fitted.temperature_high and fitted.temperature == pytest.approx(2, abs=0.35)
    table = metrics.calibration_table(records).set_index("family")
    base, scale = table.loc["base"], table.loc["scale"]
    assert base.ECE_scaled < 0.06 < base.ECE and scale.ECE_scaled > base.ECE_scaled + 0.05
    assert scale.gap_change_verdict == calibration.CHANGES[0] and base.gap_change_verdict == ""
    only = metrics.temperature_table(records[records.family == "base"])
    pd.testing.assert_frame_equal(only, metrics.temperature_table(records))
    right = records[(records.prediction == records.answer) | (records.family != "base")]
    assert np.isnan(metrics.temperature_table(right).temperature[0])  # no error: no temperature is the best
    assert metrics.calibration_table(right).ECE_scaled.isna().all()


def test_the_temperature_without_an_image_is_nearly_that_of_a_fit_without_it():
    records = world(np.random.default_rng(4), 60, base=1.5)
    whole = metrics.temperature_table(records).iloc[0]
    left = [metrics.temperature_table(records[records.sample_id != f"s{i}"]).temperature[0] for i in range(60)]
    spread = np.sqrt(59 / 60 * np.square(np.log(left) - np.log(left).mean()).sum())
    assert np.log(whole.temperature_high / whole.temperature_low) == pytest.approx(2 * 2.0 * spread, rel=0.25)


@pytest.mark.parametrize("sharpness, word", [(4.0, 0), (0.35, 1)])
def test_verdicts_find_the_planted_gap(sharpness, word):
    table = metrics.calibration_table(world(np.random.default_rng(1), 200, sharpness, sharpness)).set_index("family")
    assert table.loc["base"].verdict == calibration.GAPS[word]
    assert table.loc["base"].ECE_p < 0.05 and table.loc["base"].ECE_low > 0
    assert table.loc["scale"].gap_change_verdict == calibration.CHANGES[2]  # as far off as before


def test_the_ece_of_a_calibrated_model_is_what_chance_gives():
    table = metrics.calibration_table(world(np.random.default_rng(2), 100, instances=2)).set_index("family")
    assert (table.ECE_low == 0).all() and (table.ECE_p > 0.05).all()
    assert table.ECE.to_numpy() == pytest.approx(table.ECE_chance.to_numpy(), abs=0.04)


def test_the_figures_show_what_the_tables_hold():
    records = world(np.random.default_rng(3), 80, 2.0, 4.0, instances=2)
    table, flips = metrics.calibration_table(records), metrics.flip_confidence_table(records)
    gap, sure = figures.plot_calibration(table, flips).axes
    np.testing.assert_allclose(gap.lines[1].get_xdata(), 100 * table.gap)
    assert "points" in gap.get_xlabel() and "onfidence" in sure.get_xlabel()
    bins, risk = metrics.reliability_table(records), metrics.risk_table(records)
    left, right = figures.plot_reliability(bins, risk).axes
    base = bins[bins.family == "base"]
    drawn = next(line for line in left.lines if line.get_label().startswith("base"))
    np.testing.assert_allclose(drawn.get_xdata(), 100 * base.confidence)
    assert sum(len(line.get_xdata()) > 0 for line in right.lines) == 2 and "Coverage" in right.get_xlabel()
    for empty in (records[:0], records[records.family == "base"]):
        figures.plot_reliability(metrics.reliability_table(empty), metrics.risk_table(empty))
        figures.plot_calibration(metrics.calibration_table(empty), metrics.flip_confidence_table(empty))


def test_the_finding_says_what_the_tables_hold():
    records = world(np.random.default_rng(5), 150, 1.0, 6.0)
    table, flips = metrics.calibration_table(records), metrics.flip_confidence_table(records)
    text = metrics.calibration_finding(table, flips)
    scale = table.set_index("family").loc["scale"]
    assert f"the gap changes by {100 * scale.gap_change:+.1f} points" in text and calibration.CHANGES[0] in text
    few = records[records.sample_id.isin(["s0", "s1", "s2"])]
    told = metrics.calibration_finding(metrics.calibration_table(few), metrics.flip_confidence_table(few))
    assert "too few images to tell" in told and not any(word in told for word in calibration.GAPS)


def test_extremes_stay_within_their_bounds_and_what_cannot_be_told_is_said():
    sure = world(np.random.default_rng(0), 30, base=50, perturbed=50)
    wrong = metrics.calibration_table(sure.assign(answer=(sure.prediction + 1) % 4)).set_index("family").loc["base"]
    assert wrong.gap_high <= 1 and wrong.ECE_high <= 1 and wrong.verdict == "overconfident"
    unknown = sure.assign(answer=np.nan)
    text = metrics.calibration_finding(metrics.calibration_table(unknown), metrics.flip_confidence_table(unknown))
    assert "right and wrong cannot be told" in text and "not available" not in text
    for parts in ([np.nan] * 4, [-1.0, np.nan, -2.0, -3.0], [-np.inf] * 4):
        broken = sure.copy()
        broken.at[2, "logp_text"] = parts
        with pytest.raises(ValueError, match="sample 's1': its scores are not finite"):
            metrics.calibration_table(broken)
    impossible = sure.copy()
    impossible.at[0, "logp_text"] = [-np.inf if i == impossible.answer[0] else -1.0 for i in range(4)]
    table = metrics.calibration_table(impossible)
    assert table.temperature.isna().all() and np.isfinite(table.Brier).all()


def test_a_table_shows_one_unit():
    table = metrics.calibration_table(world(np.random.default_rng(1), 30))
    heads = set(output.readable(table))
    assert {
        "accuracy (%)",
        "confidence (%)",
        "gap (%)",
        "ECE (%)",
        "ECE chance (%)",
        "gap change (%)",
        "AURC (%)",
    } <= heads
    assert {"Brier", "p holm", "temperature"} <= heads
