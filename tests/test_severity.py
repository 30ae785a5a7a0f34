"""Perturbations with a strength (vfkit.perturb.severity) and what comes first as it grows (vfkit.metrics.severity)."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import vfkit
from vfkit import figures, metrics
from vfkit.datasets import LOADERS, Rows
from vfkit.metrics import severity
from vfkit.perturb import SEVERITY, natural_suite
from vfkit.perturb.severity import KINDS, settings

COLUMN = "cos_ctx_mcq_post_norm"
STRENGTHS = (5.0, 15.0, 30.0, 60.0)


@pytest.fixture(scope="module")
def photo():
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (90, 120, 3), dtype=np.uint8)).resize((120, 90))


def _instances(photo, strengths=None, ident="s"):
    sample = vfkit.Sample(ident, (photo,), "What is it?", ("a", "b", "c"))
    params = {f: {"strength": strengths} for f in SEVERITY} if strengths else {}
    return natural_suite(SEVERITY, params).instances(sample, 0)


def _pixels(instance):
    return np.asarray(instance.images[0])


def test_strength_0_is_the_image_itself(photo):
    instances = _instances(photo, [0])
    assert [one.name for one in instances] == [f"{family}_0" for family in SEVERITY]
    for one in instances:
        np.testing.assert_array_equal(_pixels(one), np.asarray(photo))


def test_every_family_changes_the_image_more_with_its_strength(photo):
    smooth = Image.linear_gradient("L").convert("RGB").resize((120, 90))
    smooth.paste((200, 30, 30), (10, 10, 40, 60))
    by_family = {}
    for one in _instances(smooth):
        by_family.setdefault(one.family, []).append(one)
    assert list(by_family) == list(SEVERITY) and {len(own) for own in by_family.values()} == {4}
    base = np.asarray(smooth, dtype=float)
    for family, own in by_family.items():
        changed = [one.images[0].resize(smooth.size) for one in own]
        errors = [np.abs(np.asarray(one, dtype=float) - base).mean() for one in changed]
        assert errors[-1] > errors[0] > 0, family


def test_what_is_random_is_fixed_by_the_sample_and_alike_for_all_strengths(photo):
    grey = Image.new("RGB", (64, 64), (128, 128, 128))
    again = [_instances(grey) for _ in range(2)]
    for one, other in zip(*again, strict=True):
        np.testing.assert_array_equal(_pixels(one), _pixels(other))
    noise = {one.params["strength"]: _pixels(one) / 255 - 128 / 255 for one in again[0] if "noise" in one.name}
    np.testing.assert_allclose(2 * noise[8.0], noise[16.0], atol=2 / 255)
    assert noise[16.0].std() == pytest.approx(16 / 255, rel=0.05)
    other = {one.name: _pixels(one) for one in _instances(grey, ident="t")}
    assert (other["severity_noise_8"] != _pixels(again[0][-17 - 3])).any()
    turned = {
        one.images[0].tobytes() for i in range(8) for one in _instances(photo, [20], str(i)) if "shift" in one.name
    }
    assert len(turned) == 2  # to the left and to the right


def test_strengths_mean_what_they_say(photo):
    of = {one.name: one for one in _instances(photo, [10, 40])}
    assert of["severity_crop_10"].images[0].size == (96, 72) and of["severity_scale_40"].images[0].size == (72, 54)
    base = np.asarray(photo, dtype=float)
    np.testing.assert_allclose(_pixels(of["severity_brightness_40"]), 0.6 * base, atol=1)
    assert _pixels(of["severity_contrast_40"]).std() == pytest.approx(0.6 * base.std(), rel=0.02)
    shifted = _pixels(of["severity_shift_10"])
    assert any((np.roll(np.asarray(photo), step, axis=1) == shifted).all() for step in (-12, 12))
    assert of["severity_overlay_10"].params["label"] == "B"


def test_impossible_strengths_are_refused_and_unfit_ones_do_not_apply(photo):
    for kind, (_, _, most, _) in KINDS.items():
        for strength in (-1, most + 1):
            with pytest.raises(ValueError, match=f"a strength of {kind} lies in"):
                natural_suite(params={f"severity_{kind}": {"strength": [strength]}})
    tiny = Image.new("RGB", (9, 9))
    reasons = {one.name: one.reason for one in _instances(tiny, [2])}
    assert "is no shift" in reasons["severity_shift_2"] and "cannot be cut" in reasons["severity_crop_2"]
    single = vfkit.Sample("one", (photo,), "?", ("a",))
    assert not natural_suite(["severity_overlay"]).instances(single, 0)  # there is no other label


def test_settings_are_those_of_a_study():
    chosen = settings(["blur", "noise"], {"blur": [1, 3]})
    suite = vfkit.StudyConfig(model="m", dataset="mini_seed", **chosen).suite()
    assert list(suite.families) == ["identity", "severity_noise", "severity_blur"]
    assert suite.families["severity_blur"]["strength"] == (1.0, 3.0)
    assert settings()["families"] == ["identity", *SEVERITY] and settings()["family_params"] is None
    for wrong in (["blurr"], None):
        with pytest.raises(ValueError, match="unknown severity 'blurr'; there are: shift"):
            settings(wrong, None if wrong else {"blurr": [1]})
    with pytest.raises(ValueError, match="strengths of jpeg, which is not among the kinds blur"):
        settings(["blur"], {"jpeg": [3]})


def test_a_study_reads_the_suite_and_the_tables_follow(tmp_path, photo, monkeypatch):
    samples = [vfkit.Sample(str(i), (photo.rotate(90 * i),), "What?", ("a", "b"), answer=0) for i in range(2)]
    monkeypatch.setitem(LOADERS, "turned", lambda path=None: Rows(samples))
    config = dict(model="mini_qwen3vl", dataset="turned", n=None, families=["severity_noise"], verify=0, device="cpu")
    config |= dict(probes=True, controls=1, max_new_tokens=2, out=str(tmp_path))
    run = vfkit.run_study(vfkit.StudyConfig(**config, family_params={"severity_noise": {"strength": [0, 64]}}))
    records = run.records()
    nothing = records[records.instance == "severity_noise_0"]
    assert len(nothing) == 2 and not nothing.flip.any()
    assert nothing[COLUMN].max() < 1e-5 < records[COLUMN][records.instance == "severity_noise_64"].min()
    table = run.table("severity")
    assert table.strength.tolist() == [0, 64] and table.drift.iloc[0] == 0
    assert np.isfinite(run.table("onset").lead).all()


# --- data whose truth is known ----------------------------------------------------------------------------------------


def world(rng, images=40, state=lambda rng: 0.0, answer=lambda rng: 0.0, families=("severity_rotation",)):
    """Records and controls: a sample's state passes the control's 5th percentile at one strength, its answer flips at
    another. Both functions draw a strength."""
    rows, pairs = [], []
    for i in range(images):
        who = dict(sample_id=f"s{i}", image_id=f"s{i}", applicable=True, category="", answer=0, n_options=2, tied=False)
        rows.append(who | {"family": "base", "instance": "base", "params": "{}", "prediction": 0, COLUMN: 0.0})
        for family in families:
            moves, flips = state(rng), answer(rng)
            for strength in STRENGTHS:
                about = {"family": family, "instance": f"{family}_{strength:g}"}
                about |= {"params": json.dumps({"strength": strength}), "prediction": int(strength >= flips)}
                rows.append(who | about | {COLUMN: strength / moves})
        for k in range(5):
            distance = 1.0 + rng.exponential(1.0)  # its 5th percentile is 1.05: nearly that of a state at `moves`
            pairs.append({"sample_id": f"s{i}", "partner_id": f"s{(i + k + 1) % images}", COLUMN: distance})
    return pd.DataFrame(rows), pd.DataFrame(pairs)


def _early(rng):
    return rng.uniform(4, 20)


def _late(rng):
    return rng.uniform(25, 80)


@pytest.mark.parametrize("state, answer, word", [(_early, _late, 0), (_late, _early, 1)])
def test_the_verdict_finds_what_comes_first(state, answer, word):
    table = metrics.onset_table(*world(np.random.default_rng(1), state=state, answer=answer)).set_index("family")
    assert table.verdict.tolist() == [severity.LEADS[word]] * 2
    row = table.loc["severity_rotation"]
    early, late = (row.drift_onset, row.flip_onset)[:: 1 if word == 0 else -1]
    assert early < 15 < late
    assert table.loc[severity.ALL].strengths == 0 and np.isnan(table.loc[severity.ALL].flip_onset)


def test_the_verdict_says_nothing_where_nothing_happens():
    never = {"state": lambda rng: 1e6, "answer": lambda rng: 1e6}
    table = metrics.onset_table(*world(np.random.default_rng(2), **never))
    assert set(table.verdict) == {"too few flips to tell"} and np.isinf(table.flip_onset[0])
    few = metrics.onset_table(*world(np.random.default_rng(2), images=3, state=_early, answer=_late))
    assert set(few.verdict) == {"too few images to tell"} and few.flip_onset_low.isna().all()


def test_state_and_answer_that_move_together_come_together():
    rng = np.random.default_rng(4)
    records, controls = world(rng, 120, state=_early, answer=_late)
    flip = records.prediction == 1
    table = metrics.onset_table(records.assign(**{COLUMN: np.where(flip, 10.0, 0.1)}), controls)
    assert table.lead.tolist() == [0, 0] and set(table.verdict) == {severity.LEADS[2]}


@pytest.mark.parametrize(
    "rates, expected",
    [
        ([0, 0.05, 0.15, 0.4], 15.0),  # half way from 10 to 20
        ([0, 0.2, 0.0, 0.4], 10.0),  # isotonic: 0, 0.1, 0.1, 0.4
        ([0, 0.0, 0.05, 0.09], np.inf),
        ([0, 0.1, 0.2, 0.3], 10.0),
    ],
)
def test_the_onset_is_interpolated(rates, expected):
    curve = pd.DataFrame({"strength": [0, 10, 20, 30], "IFR": rates})
    curve = curve.assign(IFR_low=0.5 * curve.IFR, IFR_high=2 * curve.IFR)
    value, low, high = severity.onset(curve, "IFR")
    assert value == pytest.approx(expected) and low <= value <= high


def test_the_table_starts_at_the_base_and_hidden_is_kept_and_beyond():
    records, controls = world(np.random.default_rng(5), state=_early, answer=_late)
    table = metrics.severity_table(records, controls).set_index("strength")
    assert table.index.tolist() == [0, *STRENGTHS]
    assert table.loc[0, ["IFR", "drift", "beyond", "hidden", "IFR_high"]].eq(0).all()
    last = table.loc[60]
    assert last.beyond == 1 and last.hidden == pytest.approx(1 - last.IFR)
    assert metrics.severity_table(records).beyond.isna().all()  # no controls, no threshold
    left = records.assign(applicable=records.instance != "severity_rotation_60")
    left["prediction"] = left.prediction.where(left.applicable)
    assert metrics.severity_table(left, controls).set_index("strength").not_applicable.get(30) == 0


def test_the_figure_shows_the_table_and_the_finding_says_it():
    both = ("severity_rotation", "severity_blur")
    records, controls = world(np.random.default_rng(6), state=_early, answer=_late, families=both)
    table, onsets = metrics.severity_table(records, controls), metrics.onset_table(records, controls)
    fig = figures.plot_severity(table, onsets)
    panels = [ax for ax in fig.axes if ax.get_visible()]
    own = table[table.family == "severity_rotation"]
    (flips,) = [line for line in panels[0].lines if line.get_label() == "answer flipped"]
    np.testing.assert_allclose(flips.get_ydata(), 100 * own.IFR)
    assert "degrees" in panels[0].get_xlabel()
    (lead,) = figures.plot_onsets(onsets).axes
    np.testing.assert_allclose(lead.lines[1].get_xdata(), 100 * onsets.lead)
    strict = metrics.onset_table(records, controls, percentile=50)
    text = metrics.severity_finding(table, onsets, strict)
    assert severity.LEADS[0] in text and "the median of other images" in text and "rotation at" in text
    assert "No image was read" in metrics.severity_finding(table[:0], onsets[:0])
    figures.plot_severity(table[:0], onsets[:0])


def test_a_kind_that_applies_to_no_image_is_named():
    both = ("severity_rotation", "severity_blur")
    records, controls = world(np.random.default_rng(6), state=_early, answer=_late, families=both)
    left = records.assign(applicable=records.family != "severity_blur")
    left["prediction"] = left.prediction.where(left.applicable)
    tables = metrics.severity_table(left, controls), metrics.onset_table(left, controls)
    assert "- Applied to no image: blur." in metrics.severity_finding(*tables)
    assert "minus the share whose answer flipped, is +" in metrics.severity_finding(*tables)
    base = records[records.family == "base"]
    nothing = metrics.severity_finding(metrics.severity_table(base, controls), metrics.onset_table(base, controls))
    assert nothing == "- No image was read at a strength above 0."
