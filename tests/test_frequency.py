"""The spectral suite: bands that partition the plane, noise that keeps to its band and size, and the suite's tables."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vfkit import figures, metrics, paper
from vfkit.perturb import NATURAL_FAMILIES, NotApplicable, frequency, natural_suite
from vfkit.sample import Sample

SIDES = st.integers(1, 40)


def picture(width=48, height=40, seed=0, low=60, high=190) -> Image.Image:
    """Far from black and white, so that nothing is clipped."""
    return Image.fromarray(np.random.default_rng(seed).integers(low, high, (height, width, 3), dtype=np.uint8))


def levels(image, base) -> np.ndarray:
    return np.asarray(image, float) - np.asarray(base, float)


# --- masks ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, st.floats(0, 1))
def test_low_and_high_partition_the_plane(height, width, cutoff):
    low, high = (frequency.mask(height, width, band, cutoff) for band in ("low", "high"))
    assert low.shape == (height, width // 2 + 1)
    assert (low ^ high).all() and frequency.mask(height, width, "all", cutoff).all()
    assert low[0, 0]  # the mean
    whole = np.random.default_rng(0).normal(size=(height, width, 3))
    parts = [frequency.project(whole, band, cutoff) for band in ("low", "high")]
    np.testing.assert_allclose(sum(parts), whole, atol=1e-12)
    for band, part in zip(("low", "high"), parts, strict=True):
        assert frequency.leakage(part, band, cutoff) < 1e-20 or np.abs(part).max() < 1e-12


def test_low_is_a_tenth_of_the_plane():
    keep, weight = frequency.mask(512, 512, "low"), frequency.weights(512)
    assert (keep * weight).sum() / 512**2 == pytest.approx(0.098, abs=0.001)


@pytest.mark.parametrize("height, width", [(8, 8), (7, 9), (1, 6), (5, 1)])
def test_leakage_is_the_share_of_the_whole_plane(height, width):
    array = np.random.default_rng(1).normal(size=(height, width, 3))
    full = np.abs(np.fft.fft2(array, axes=(0, 1))) ** 2
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)
    outside = np.sqrt(fx**2 + fy**2) / np.sqrt(0.5) > 0.4
    assert frequency.leakage(array, "low", 0.4) == pytest.approx(full[outside].sum() / full.sum())
    assert frequency.leakage(array, "all", 0.4) == 0 and frequency.leakage(0 * array, "low", 0.4) == 0


# --- noise ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", frequency.BANDS)
@pytest.mark.parametrize("eps", [4 / 255, 16 / 255])
def test_noise_has_its_size_and_its_band(band, eps):
    base = picture(64, 48)
    for scaling in frequency.SCALINGS:
        delta = levels(frequency.noise(base, eps, band, scaling, 0.25, "a"), base) / 255
        size = np.abs(delta).max() if scaling == "max" else np.sqrt(np.square(delta).mean())
        assert size == pytest.approx(eps, abs=0.5 / 255 if scaling == "max" else 0.05 * eps)
        assert frequency.leakage(delta, band, 0.25) < (0.15 if eps < 0.02 else 0.02)  # rounding is noise of its own
    drawn = frequency.band_noise(48, 64, band, 0.25, "a")
    assert frequency.leakage(drawn, band, 0.25) < 1e-9


def test_noise_is_drawn_by_its_seed_and_shared_by_all_sizes():
    base = picture()
    four, eight = (levels(frequency.noise(base, k / 255, "low", "max", 0.25, "s"), base) for k in (8, 16))
    assert np.corrcoef(four.ravel(), eight.ravel())[0, 1] > 0.98
    again = levels(frequency.noise(base, 8 / 255, "low", "max", 0.25, "s"), base)
    other = levels(frequency.noise(base, 8 / 255, "low", "max", 0.25, "t"), base)
    assert (four == again).all() and (four != other).any()
    assert not levels(frequency.noise(base, 0.0, "high", "rms", 0.25, "s"), base).any()


def test_a_pixel_has_no_high_frequencies():
    with pytest.raises(NotApplicable, match="no high frequencies"):
        frequency.noise(Image.new("RGB", (1, 1)), 0.1, "high", "max", 0.25, "s")


# --- ablation ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(SIDES, SIDES, st.integers(0, 9))
def test_passing_everything_returns_the_image_and_nothing_its_mean(width, height, seed):
    image = picture(width, height, seed, 0, 256)
    assert not levels(frequency.low_pass(image, 1.0), image).any()
    assert not levels(frequency.high_pass(image, 0.0), image).any()
    mean = np.asarray(image, float).mean(axis=(0, 1))
    for flat in (frequency.low_pass(image, 0.0), frequency.high_pass(image, 1.0)):
        assert np.abs(np.asarray(flat) - mean).max() <= 0.5 + 1e-9


def test_low_and_high_pass_are_the_two_parts_of_an_image():
    image = picture()
    mean = np.asarray(image, float).mean(axis=(0, 1))
    both = np.asarray(frequency.low_pass(image, 0.4), float) + np.asarray(frequency.high_pass(image, 0.4), float)
    assert np.abs(both - mean - np.asarray(image, float)).max() <= 1 + 1e-9  # two roundings


# --- the suite --------------------------------------------------------------------------------------------------------

SAMPLE = Sample("s", (picture(),), "What?", ("a", "b", "c"))


def test_the_spectral_families_are_asked_for_by_name():
    assert not {"noise_low", "low_pass", "pgd_low"} & set(NATURAL_FAMILIES)
    suite = natural_suite(["noise_low", "noise_high", "noise_all", "low_pass", "high_pass", "pgd_low"])
    instances = suite.instances(SAMPLE, 0)
    names = [one.name for one in instances]
    assert len(set(names)) == len(names) == 3 * 2 * 5 * 5 + 2 * 10
    assert {"noise_low_max_8_0", "noise_all_rms_16_4", "low_pass_0.111", "high_pass_1.0"} <= set(names)
    assert list(suite.attacks) == ["pgd_low"]  # whose instances need the model


def test_noise_records_what_it_measures_after_rounding():
    suite = natural_suite("noise_low", {"noise_low": {"eps": [8 / 255], "scaling": "max", "trials": 2}})
    first, second = suite.instances(SAMPLE, 0)
    delta = levels(first.images[0], SAMPLE.images[0]) / 255
    assert first.params["max_abs"] == pytest.approx(np.abs(delta).max(), abs=1e-6)
    assert first.params["rms"] == pytest.approx(np.sqrt(np.square(delta).mean()), abs=1e-6)
    assert first.params["leakage_8bit"] == pytest.approx(frequency.leakage(delta, "low"), abs=1e-6)
    assert json.dumps(first.params) and levels(first.images[0], second.images[0]).any()


def test_bands_share_their_draws_and_samples_do_not():
    one = natural_suite(["noise_low", "noise_high", "noise_all"]).instances(SAMPLE, 0)
    low, high, whole = (levels(x.images[0], SAMPLE.images[0]) for x in one if x.name.endswith("rms_16_0"))
    parts = [np.corrcoef(part.ravel(), whole.ravel())[0, 1] for part in (low, high)]
    assert parts[0] == pytest.approx(0.31, abs=0.05) and parts[1] > 0.9  # roots of their shares of the plane
    other = Sample("t", SAMPLE.images, "What?", ("a", "b"))
    (same,) = (x for x in natural_suite("noise_low").instances(other, 0) if x.name == "noise_low_rms_16_0")
    assert abs(np.corrcoef(low.ravel(), levels(same.images[0], SAMPLE.images[0]).ravel())[0, 1]) < 0.5


@pytest.mark.parametrize(
    "family, params, says",
    [
        ("noise_low", {"trials": 0}, "trials"),
        ("noise_low", {"scaling": ["peak"]}, "scaling"),
        ("noise_low", {"eps": [-0.1]}, "eps"),
        ("low_pass", {"cutoff": [1.5]}, "cutoff"),
        ("pgd_low", {"steps": 0}, "steps"),
        ("pgd_low", {"target": "best"}, "target"),
        ("pgd_low", {"epsilon": 0.1}, "eps"),
    ],
)
def test_impossible_parameters_are_refused_before_any_sample(family, params, says):
    with pytest.raises(ValueError, match=says):
        natural_suite(family, {family: params})


# --- tables -----------------------------------------------------------------------------------------------------------


def record(sample, family="base", prediction=0, params=(), logp=(-1.0, -3.0), name=None):
    scores = np.array(logp)
    return {
        "sample_id": sample, "image_id": sample, "family": family, "instance": name or f"{family}{params}",
        "params": json.dumps(dict(params)), "applicable": True, "base_prediction": 0, "prediction": prediction,
        "margin": abs(scores[0] - scores[1]), "base_margin": scores[0] - scores[1], "tied": False, "answer": 0,
        "logp_text": scores, "logp_end": 0 * scores, "logp_letter": scores, "n_tokens": np.array([1, 1]),
    }  # fmt: skip


def noise_row(sample, band, trial, flips, eps=8 / 255, scaling="rms"):
    measured = {"rms": eps, "max_abs": 4 * eps, "leakage_8bit": 0.01, "scaling": scaling, "eps": eps, "trial": trial}
    return record(sample, f"noise_{band}", int(flips), tuple(measured.items()), (-1.0, -1.5))


def test_noise_table():
    rows = [record(str(i)) for i in range(12)]
    for i in range(12):
        for trial in range(4):
            rows += [
                noise_row(str(i), "low", trial, trial < 2),
                noise_row(str(i), "high", trial, trial == 3 and i == 0),
            ]
    frame = pd.DataFrame(rows)
    table = metrics.noise_table(frame).set_index("family")
    assert table.loc["noise_low", ["samples", "instances", "IFR", "eps", "margin"]].tolist() == [12, 48, 0.5, 8.0, 0.5]
    assert table.loc["noise_high", "IFR"] == pytest.approx(1 / 48)


def ablation(sample, family, flips):
    cutoffs = np.linspace(0, 1, len(flips))
    return [
        record(sample, family, int(flip), (("cutoff", float(cutoff)),))
        for cutoff, flip in zip(cutoffs, flips, strict=True)
    ]


def test_thresholds_are_where_an_answer_leaves_for_good():
    rows = [record(name) for name in "abc"]
    rows += ablation("a", "low_pass", [1, 1, 0, 1, 0]) + ablation("a", "high_pass", [0, 1, 0, 1, 1])
    rows += ablation("b", "low_pass", [0, 1, 1, 1, 0]) + ablation("b", "high_pass", [0, 0, 0, 0, 1])
    rows += ablation("c", "low_pass", [1, 1, 1, 1, 1]) + ablation("c", "high_pass", [0, 0, 1, 1, 0])
    frame = pd.DataFrame(rows)
    found = metrics.thresholds(frame).pivot(index="sample_id", columns="family", values="threshold")
    np.testing.assert_array_equal(found["low_pass"], [0.25, np.nan, 1.0])
    np.testing.assert_array_equal(found["high_pass"], [0.75, 1.0, np.nan])
    table = metrics.threshold_table(frame).set_index("family")
    assert table.loc["low_pass", ["samples", "left", "threshold"]].tolist() == [3, 2, 0.625]
    assert metrics.ablation_table(frame).query("family == 'low_pass'").IFR.tolist() == pytest.approx(
        [2 / 3, 1, 2 / 3, 1, 1 / 3]
    )


def curves(*families, n=30, cutoffs=10, flips):
    """Records of `n` images; flips(sample, step) of an ablation with that many cutoffs."""
    rows = [record(f"s{i}") for i in range(n)]
    for family in families:
        rows += [row for i in range(n) for row in ablation(f"s{i}", family, [flips(i, k) for k in range(cutoffs)])]
    return pd.DataFrame(rows)


def test_smoothness_tells_a_cliff_from_a_slope_and_from_a_curve_that_turns():
    cliff = curves("low_pass", flips=lambda i, k: k < 4)  # every answer comes back at the same cutoff
    slope = curves("low_pass", flips=lambda i, k: k < 10 * i / 30)
    turns = curves("high_pass", flips=lambda i, k: k in (2, 3, 6, 7, 9))  # up and down
    found = {name: metrics.smoothness_table(frame).set_index("curve").loc["flip rate"]
             for name, frame in {"cliff": cliff, "slope": slope, "turns": turns}.items()}  # fmt: skip
    assert found["cliff"][["samples", "images", "steps"]].tolist() == [30, 30, 9]
    assert found["cliff"]["at"] == pytest.approx(4 / 9) and found["cliff"]["largest_step_low"] > 0.5
    assert found["cliff"][["net", "largest_step", "step_back", "variation"]].tolist() == [-1, 1, 0, 1]
    assert found["slope"]["largest_step"] == pytest.approx(0.1) and found["slope"]["largest_step_high"] < 0.4
    assert found["slope"][["step_back", "variation"]].tolist() == [0, pytest.approx(1)]
    assert (
        found["turns"][["net", "step_back", "variation"]].tolist() == [1, 1, 5]
        and found["turns"]["step_back_low"] > 0.5
    )
    few = metrics.smoothness_table(curves("low_pass", n=4, flips=lambda i, k: k < 4)).iloc[0]
    assert few["largest_step"] == 1 and few.filter(like="_low").isna().all()
    one = metrics.smoothness_table(curves("low_pass", cutoffs=1, flips=lambda i, k: 0))
    assert one.steps.tolist() == [0, 0] and one.largest_step.isna().all()


def test_the_sentence_on_smoothness_says_what_the_intervals_allow():
    def said(flips, n=30, cutoffs=10):
        table = metrics.smoothness_table(curves("low_pass", n=n, cutoffs=cutoffs, flips=flips))
        figures.plot_smoothness(table)
        return metrics.smoothness_finding(table).split("\n")[0]

    assert said(lambda i, k: k < 4).startswith("- low-pass, flip rate: over all cutoffs -100.0 points [")
    assert "at cutoff 0.44444" in said(lambda i, k: k < 4)
    assert said(lambda i, k: k < 4).endswith(": one step carries more than half of the change.")
    assert said(lambda i, k: k < 10 * i / 80, n=80).endswith(": smooth, no step carries half of the change.")
    assert said(lambda i, k: k < 4, n=4).endswith(": too few images to tell.")
    assert said(lambda i, k: 0).endswith("the curve may not change at all.")
    assert said(lambda i, k: k in (2, 3, 6, 7, 9)).endswith("; the curve turns back.")
    rng = np.random.default_rng(0)
    assert "undecided" in said(lambda i, k: rng.random() < 0.8 - 0.08 * k, n=12)


def test_intervals_of_smoothness_hold_the_truth_of_noisy_curves():
    """Rates fall evenly from 80 to 8 %: of the truth no step is larger than 8 points and none goes back."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        frame = curves("low_pass", n=24, flips=lambda i, k, rng=rng: rng.random() < 0.8 - 0.08 * k)
        row = metrics.smoothness_table(frame).iloc[0]
        truth = {"net": -0.72, "largest_step": 0.08, "step_back": 0, "variation": 1}
        held.append([row[f"{name}_low"] - 1e-9 <= value <= row[f"{name}_high"] for name, value in truth.items()])
        assert row["largest_step"] > 0.08  # chance makes larger steps, which the interval must not take for true
    assert np.mean(held, axis=0).min() >= 0.93


def test_noise_grows_until_answers_flip_on_enough_images():
    def noisy(flips, eps=8 / 255):
        return [noise_row(f"s{i}", band, 0, flip, eps) for band in ("low", "high") for i, flip in enumerate(flips)]

    base = [record(f"s{i}") for i in range(12)]
    none, some, enough = (pd.DataFrame(base + noisy([True] * k + [False] * (12 - k))) for k in (0, 5, 6))
    assert metrics.louder(none, 64) == metrics.louder(some, 16) == [16.0] and metrics.louder(enough, 64) == []
    assert metrics.louder(none, 15) == [] and metrics.louder(pd.DataFrame(base), 64) == []
    assert metrics.louder(some, 64, fewest=5) == []
    few = pd.DataFrame(base[:2] + noisy([True, True]))
    assert metrics.louder(few, 64) == []  # both of two
    both = pd.DataFrame(base + noisy([False] * 12) + noisy([False] * 11 + [True], 16 / 255))
    assert metrics.louder(both, 64) == [32.0]
    assert "too few flips to tell; up to 8/255 nothing flips." in metrics.band_finding(metrics.band_test(both))
    assert "nothing flips" not in metrics.band_finding(metrics.band_test(enough))


def attack_row(sample, noise=False, prediction=0, logp=(-2.0, -3.0), **more):
    params = {"eps": 8 / 255, "target": "", "label": 0, "trace": [2.0, -1.0], "leakage": 0.004, "leakage_8bit": 0.02}
    params |= {"max_abs": 8 / 255, "rms": 5 / 255} | more
    return record(
        sample, "pgd_low_noise" if noise else "pgd_low", prediction, tuple(params.items()), logp, "x" + str(noise)
    )


def test_success_is_a_flip_that_lowered_the_base_answer():
    rows = [record(str(i)) for i in range(4)]
    rows += [attack_row("0", prediction=1, logp=(-4.0, -1.0))]  # the base answer fell, the other rose
    rows += [attack_row("1", prediction=1, logp=(-0.5, -0.1))]  # flipped, but the base answer rose
    rows += [attack_row("2", logp=(-2.0, -3.0))]  # fell, but was kept
    rows += [attack_row("3", prediction=1, logp=(-9.0, -1.0))]
    rows += [attack_row(str(i), True, int(i == 3), (-1.1, -1.0)) for i in range(4)]
    (row,) = metrics.attack_table(pd.DataFrame(rows)).to_dict("records")
    assert (row["samples"], row["success_rate"], row["flip_rate"], row["control_rate"]) == (4, 0.5, 0.75, 0.25)
    assert row["difference"] == 0.25 and row["eps"] == 8 and row["p"] == 1.0
    assert (row["right"], row["success_rate_right"]) == (4, 0.5)
    wrong = pd.DataFrame(rows)
    wrong["answer"] = wrong["sample_id"].map({"0": 0, "1": 0, "2": 1, "3": None})  # 2 was wrong, 3 has no truth
    (row,) = metrics.attack_table(wrong).to_dict("records")
    assert (row["success_rate"], row["right"], row["success_rate_right"]) == (0.5, 2, 0.5)
    (row,) = metrics.attack_table(wrong.assign(answer=1)).to_dict("records")
    assert row["right"] == 0 and np.isnan(row["success_rate_right"])
    beside = paper.beside(metrics.attack_table(pd.DataFrame(rows)), "Qwen3-VL-2B-Instruct")
    assert beside.success_rate_published.tolist() == [0.79]
    trace = metrics.trace_table(pd.DataFrame(rows))
    assert trace.step.tolist() == [0, 1] and trace.margin.tolist() == [2.0, -1.0]
    audit = metrics.audit_table(pd.DataFrame(rows)).set_index("family")
    assert audit.loc["pgd_low", ["max_abs", "rms", "leakage_max", "within_share"]].tolist() == [8.0, 5.0, 0.004, 1.0]
    worse = pd.DataFrame(rows + [record("4"), attack_row("4", max_abs=9 / 255)])
    assert metrics.audit_table(worse).set_index("family").loc["pgd_low", "within_share"] == pytest.approx(0.8)


def test_success_of_a_targeted_attack_is_reaching_its_target():
    rows = [record(str(i)) for i in range(2)]
    rows += [
        attack_row("0", prediction=1, target="last", label=1),
        attack_row("1", prediction=0, target="last", label=1),
    ]
    missed = attack_row("2", target="last", label=1) | {"applicable": False, "prediction": None}
    (row,) = metrics.attack_table(pd.DataFrame([*rows, record("2"), missed])).to_dict("records")
    assert (row["target"], row["samples"], row["success_rate"], row["not_applicable"]) == ("last", 2, 0.5, 1)
    assert np.isnan(row["control_rate"])


def test_a_run_without_these_families_gives_empty_tables():
    frame = pd.DataFrame([record("a")])
    assert metrics.threshold_table(frame).empty
    table = metrics.attack_table(frame)
    assert table.empty and "not_applicable" in table and figures.plot_attacks(table).axes[0].get_xlabel()


def test_figures_show_every_number(tmp_path):
    rows = [record(name) for name in "ab"]
    for name in "ab":
        rows += ablation(name, "low_pass", [1, 0, 0]) + ablation(name, "high_pass", [0, 1, 1])
        rows += [noise_row(name, band, 0, True, eps) for band in ("low", "high") for eps in (4 / 255, 8 / 255)]
        rows += [attack_row(name, prediction=1, logp=(-4.0, -1.0)), attack_row(name, True)]
    frame = pd.DataFrame(rows)
    (ax,) = figures.plot_noise(metrics.noise_table(frame), floor=0.0).axes
    assert [tuple(line.get_ydata()) for line in ax.lines[:2]] == [(100, 100), (100, 100)]
    axes = figures.plot_ablation(metrics.ablation_table(frame), metrics.threshold_table(frame)).axes
    assert any("2 of 2 answers leave" in line.get_label() for line in axes[0].lines)
    ax = figures.plot_attacks(paper.beside(metrics.attack_table(frame), "qwen3vl_2b")).axes[0]
    assert any("published" in line.get_label() for line in ax.lines)
    (ax,) = figures.plot_traces(metrics.trace_table(frame)).axes
    assert tuple(ax.lines[0].get_ydata()) == (2.0, -1.0)
    base = picture()
    item = {"base_image": base, "image": frequency.noise(base, 8 / 255, "low", "max", 0.25, "s"), "family": "pgd_low_8"}
    item |= {"question": "What $is$ it?", "base_answer": "a", "answer": "b"}
    axes = figures.plot_adversarial([item]).axes
    assert len(axes) == 4 and "8 grey levels" in axes[1].get_title("left")
    figures.save(axes[0].figure, tmp_path, "panel", frame[["sample_id"]])
    with pytest.raises(ValueError, match="at least one"):
        figures.plot_adversarial([])
