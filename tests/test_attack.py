"""Attacks: gradients of the right thing, one image in its band and bounds, and the 8-bit file that counts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from PIL import Image

import vfkit
from vfkit import attack, metrics
from vfkit.datasets import LOADERS, Rows
from vfkit.images import content_hash, load_image
from vfkit.perturb import ATTACKS, frequency, natural_suite
from vfkit.readout import gradient
from vfkit.readout.batch import question
from vfkit.sample import Sample
from vfkit.study.gallery import adversarial, flipped

EPS = (0.0, 2 / 255, 8 / 255)


@pytest.fixture(scope="module")
def samples():
    return list(vfkit.load_dataset("mini_seed", n=4))


def opened(sample):
    return tuple(load_image(source) for source in sample.images)


def bases(vlm, samples, rule="paper"):
    return [(each, opened(each), vfkit.read(vlm, each, probes=False).scores(rule)) for each in samples]


def planes(images, kind=torch.float32):
    return tuple(torch.from_numpy(np.array(image)).permute(2, 0, 1).to(kind) / 255 for image in images)


def scored(vlm, samples, images, rule="paper", **options):
    questions = [question(vlm, sample, each) for sample, each in zip(samples, images, strict=True)]
    return gradient.option_scores(vlm, questions, [planes(each) for each in images], rule, **options)


def settings(**changes):
    suite = natural_suite(ATTACKS, dict.fromkeys(ATTACKS, {"steps": 4} | changes))
    return suite.attacks


@pytest.fixture(scope="module")
def attacked(vlm, samples):
    """Every attack on every sample at three sizes, by sample."""
    return attack.attacked(vlm, bases(vlm, samples), settings(eps=EPS))


# --- scores and gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["paper", "text_mean", "letter"])
def test_scores_are_the_engines(vlm, samples, rule):
    samples = [sample for sample in samples if sample.prompt == "mcq"]
    for sample, found in zip(samples, scored(vlm, samples, [opened(s) for s in samples], rule), strict=True):
        expected = vfkit.read(vlm, sample, probes=False).scores(rule)
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-4)


def test_scores_of_two_images_are_the_engines(vlm, samples):
    images = (opened(samples[0])[0], opened(samples[1])[0].resize((200, 256)))
    both = replace(samples[0], images=images)
    (found,) = scored(vlm, [both], [images])
    np.testing.assert_allclose(found.detach().numpy(), vfkit.read(vlm, both, probes=False).scores(), atol=1e-4)


def test_gradients_agree_with_finite_differences(samples):
    vlm = vfkit.load_model("mini_qwen3vl", device="cpu")
    vlm.model.double().requires_grad_(False)
    vlm.dtype = torch.float64
    sample, images = samples[0], opened(samples[0])
    asked, (clean,) = question(vlm, sample, images), planes(images, torch.float64)

    def margin(plane):
        (scores,) = gradient.option_scores(vlm, [asked], [(plane,)], "paper", exact=False)
        return scores[0] - scores[1]

    plane = clean.clone().requires_grad_()
    (slope,) = torch.autograd.grad(margin(plane), plane)
    draw = np.random.default_rng(0)
    for direction, h in ((slope, 0.01), (torch.from_numpy(draw.normal(size=slope.shape)), 0.3)):
        direction = direction / direction.norm()
        with torch.no_grad():
            difference = (margin(clean + h * direction) - margin(clean - h * direction)) / (2 * h)
        expected = pytest.approx(float(difference), rel=1e-2)  # the processor computes in float32
        assert float((slope * direction).sum()) == expected
    assert slope.abs().max() > 0 and (slope != 0).float().mean() > 0.5  # it reaches the raw pixels


def test_values_are_of_the_rounded_image_and_gradients_of_the_floats(vlm, samples):
    sample, images = samples[0], opened(samples[0])
    asked, (clean,) = question(vlm, sample, images), planes(images)
    off = (clean + 0.4 / 255).clamp(0, 1).requires_grad_()  # rounds back to the image
    (scores,) = gradient.option_scores(vlm, [asked], [(off,)], "paper")
    np.testing.assert_allclose(scores.detach().numpy(), vfkit.read(vlm, sample, probes=False).scores(), atol=1e-4)
    assert torch.autograd.grad(scores[0], off)[0].abs().max() > 0


@pytest.mark.parametrize("name", tiny.ALL)
def test_every_architecture_passes_its_gradient(tiny_vlm, name):
    vlm = tiny_vlm(name)
    draw, samples, images = np.random.default_rng(0), [], []
    for n_images, (width, height) in ((1, (64, 64)), (1, (96, 60)), (2, (40, 90))):
        samples.append(vfkit.Sample(str(len(samples)), (), "Which shape is teal?", ("star", "ring", "a red ring")))
        pixels = draw.integers(0, 256, (n_images, height, width, 3), dtype=np.uint8)
        images.append(tuple(Image.fromarray(each) for each in pixels))
    leaves = [tuple(plane.requires_grad_() for plane in planes(each)) for each in images]
    questions = [question(vlm, *pair) for pair in zip(samples, images, strict=True)]
    scores = gradient.option_scores(vlm, questions, leaves, "paper")
    for sample, each, found in zip(samples, images, scores, strict=True):
        expected = vfkit.read(vlm, sample, each, probes=False).scores()
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-4)
    flat = [plane for each in leaves for plane in each]
    assert all(slope.any() for slope in torch.autograd.grad(sum(each[0] - each[1] for each in scores), flat))


# --- what an attack returns -------------------------------------------------------------------------------------------


def test_every_sample_has_an_image_and_its_control_for_each_eps(attacked):
    for found in attacked:
        names = [instance.name for instance in found]
        ends = [f"{mode}{kind}" for mode in ATTACKS for k in (0, 2, 8) for kind in (f"_{k}", f"_noise_{k}_0")]
        assert names == ends and all(instance.applicable for instance in found)


def test_an_image_without_the_band_is_not_attacked_in_it(vlm):
    sample = Sample("dot", (Image.new("RGB", (1, 1)),), "What is it?", ("red", "blue"), 0)
    high = {"pgd_high": settings()["pgd_high"]}
    (made,) = attack.attacked(vlm, [(sample, sample.images, np.array([0.0, -1.0]))], high)
    assert [one.applicable for one in made] == [False] and "too small" in made[0].reason


def test_no_room_is_the_clean_score(vlm, samples, attacked):
    for sample, found in zip(samples, attacked, strict=True):
        for instance in (one for one in found if one.params["eps"] == 0):
            assert [content_hash(image) for image in instance.images] == [content_hash(i) for i in opened(sample)]
            if "trace" in instance.params:
                clean = vfkit.read(vlm, sample, probes=False).margin()
                np.testing.assert_allclose(instance.params["trace"], clean, atol=1e-4)


def test_the_8_bit_image_keeps_its_bounds_and_the_record_tells_the_truth(samples, attacked):
    for sample, found in zip(samples, attacked, strict=True):
        for instance in found:
            delta = (np.asarray(instance.images[0], float) - np.asarray(opened(sample)[0], float)) / 255
            if "trace" in instance.params:  # its noise may need more room for the same RMS
                assert np.abs(delta).max() <= instance.params["eps"] + 0.5 / 255  # half a grey level of rounding
            assert instance.params["max_abs"] == pytest.approx(np.abs(delta).max(), abs=1e-6)
            assert instance.params["rms"] == pytest.approx(np.sqrt(np.square(delta).mean()), abs=1e-6)
            leak = frequency.leakage(delta, instance.params["band"])
            assert instance.params["leakage_8bit"] == pytest.approx(leak, abs=1e-6)
            assert instance.params["leakage"] <= attack.LEAKAGE
            assert json.dumps(instance.params)


def test_the_last_step_of_the_trace_is_what_the_engine_reads(vlm, samples, attacked):
    for sample, found in zip(samples[:2], attacked, strict=False):
        for instance in (one for one in found if "trace" in one.params):
            scores = vfkit.read(vlm, sample, instance.images, probes=False).scores()
            label = instance.params["label"]
            margin = scores[label] - np.delete(scores, label).max()
            assert instance.params["trace"][-1] == pytest.approx(margin, abs=1e-4)


def test_the_loss_falls_and_success_rises_with_eps(attacked):
    traces = {(f, eps): [] for f in ATTACKS for eps in EPS}
    for instance in (one for found in attacked for one in found if "trace" in one.params):
        traces[instance.family, instance.params["eps"]].append(instance.params["trace"])
    for family in ATTACKS:
        clean, small, large = (np.array(traces[family, eps]).mean(axis=0) for eps in EPS)
        assert large[-1] < large[0] - (0.02 if family == "pgd_high" else 1)
        assert large[-1] < small[-1] < clean[-1]
        flips = [np.mean(np.array(traces[family, eps])[:, -1] < 0) for eps in EPS]
        assert flips == sorted(flips)
    assert np.mean(np.array(traces["pgd_pixel", EPS[2]])[:, -1] < 0) >= 0.75


def test_noise_has_the_rms_of_its_attack_and_is_chosen_against_nothing(attacked):
    for found in attacked:
        for own, noise in zip(found[::2], found[1::2], strict=True):
            assert noise.family == f"{own.family}_noise" and noise.params["band"] == own.params["band"]
            assert noise.params["rms"] == pytest.approx(own.params["rms"], rel=0.02)  # both as 8-bit images
            assert noise.params["leakage"] <= attack.LEAKAGE
    outside = [n.params["max_abs"] > n.params["eps"] + 0.5 / 255 for each in attacked for n in each[1::2]]
    assert np.mean(outside) < 0.25  # only where two grey levels of a narrow band are not enough


@pytest.mark.parametrize("target", ["second", "last", "A"])
def test_a_target_draws_the_answer_towards_it(vlm, samples, target):
    chosen = bases(vlm, [sample for sample in samples if len(sample.options) > 2][:2])
    found = attack.attacked(vlm, chosen, {"pgd_pixel": settings(target=target)["pgd_pixel"]})
    for (_, _, scores), each in zip(chosen, found, strict=True):
        wanted = {"second": np.argsort(-scores)[1], "last": np.argmin(scores), "A": 0}[target]
        if wanted == np.argmax(scores):
            assert [one.reason for one in each] == ["the target is the base answer"]
            continue
        trace = each[0].params["trace"]
        assert each[0].params["label"] == wanted and each[0].name.endswith(f"_to_{target}")
        assert trace[0] < 0 and max(trace) > trace[0] + 0.5  # sign steps may overshoot


def test_a_single_option_and_a_missing_target_do_not_apply(vlm, samples):
    one = replace(samples[0], options=samples[0].options[:1], answer=0)
    (found,) = attack.attacked(vlm, bases(vlm, [one]), {"pgd_low": settings()["pgd_low"]})
    assert [each.reason for each in found] == ["a single option has no margin"]
    (found,) = attack.attacked(vlm, bases(vlm, samples[:1]), {"pgd_low": settings(target="Z")["pgd_low"]})
    assert [each.reason for each in found] == ["there is no option Z"]


# --- band and box -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", ["low", "high"])
@pytest.mark.parametrize("content", ["noise", "white half", "black"])
def test_confined_is_in_band_and_in_bounds_whatever_the_image(band, content):
    clean = torch.from_numpy(np.random.default_rng(0).uniform(size=(3, 40, 56)))
    if content != "noise":
        clean[:, :20] = 1.0
        clean[:, 20 if content == "white half" else 0 :] *= float(content != "black")
    draw = torch.from_numpy(np.random.default_rng(1).normal(size=clean.shape))
    found = attack.confined(0.1 * draw, clean, 8 / 255, band, 0.25)
    assert found.abs().max() <= 8 / 255 and (clean + found >= 0).all() and (clean + found <= 1).all()
    assert frequency.leakage(found.permute(1, 2, 0).numpy(), band) <= attack.LEAKAGE
    if content == "black" and band == "high":  # nothing above zero has no mean
        assert not found.any()


# --- refusals and studies ---------------------------------------------------------------------------------------------


def test_a_processor_that_passes_no_gradient_is_refused_by_name(vlm, samples, monkeypatch):
    real = gradient.model_inputs

    def detached(vlm, conversations):
        return {key: value.detach() for key, value in real(vlm, conversations).items()}

    monkeypatch.setattr(gradient, "model_inputs", detached)
    with pytest.raises(gradient.NotDifferentiable, match="Qwen2VLImageProcessor of 'mini_qwen3vl' passes no gradient"):
        attack.attacked(vlm, bases(vlm, samples[:1]), settings())


def study(tmp_path, **changes):
    wanted = {"eps": [8 / 255], "steps": 3}
    what = dict(model="mini_qwen3vl", dataset="attacked", families=("identity", "pgd_pixel", "pgd_low"), verify=1)
    what |= dict(study="attack", family_params=dict.fromkeys(ATTACKS, wanted), out=str(tmp_path), chunk=2)
    return vfkit.run_study(vfkit.StudyConfig(**what | changes), progress=False)


@pytest.fixture
def data(monkeypatch, samples):
    broken = vfkit.Sample("broken", (b"not an image",), "What?", ("a", "b"))
    monkeypatch.setitem(LOADERS, "attacked", lambda path=None: Rows([*samples[:3], broken]))


def test_a_study_keeps_rows_images_and_errors_and_resumes(tmp_path, data, monkeypatch):
    run = study(tmp_path)
    records, images = run.records(), run.images()
    assert run.errors()[["sample_id", "stage"]].values.tolist() == [["broken", "image"]]
    families = ["base", "identity", "pgd_pixel", "pgd_pixel_noise", "pgd_low", "pgd_low_noise"]
    assert [list(part.family) for _, part in records.groupby("sample_id")] == [families] * 3
    kept = {(row.sample_id, row.instance): content_hash(load_image(row.png)) for row in images.itertuples()}
    rows = records[records.family.str.startswith("pgd")]
    assert kept == {(row.sample_id, row.instance): row.image_hash for row in rows.itertuples()}  # what was scored
    assert metrics.attack_table(records).samples.tolist() == [3, 3]
    assert (metrics.audit_table(records).within_share == 1).all()
    items = adversarial(run)
    assert [item["family"] for item in items] == ["pgd_pixel_8", "pgd_low_8"]
    assert isinstance(items[0]["image"], Image.Image) and all("pgd" in item["family"] for item in flipped(run))

    parts = sorted((run.folder / "records").glob("*.parquet"))
    parts[0].unlink()
    calls = []
    real = attack.attacked
    monkeypatch.setattr(
        attack, "attacked", lambda vlm, chosen, *rest: calls.append(len(chosen)) or real(vlm, chosen, *rest)
    )
    again = study(tmp_path)
    assert len(calls) == 1 and sorted((run.folder / "records").glob("*.parquet")) == parts  # the same bytes, again
    assert again.images().equals(images)


def test_an_attack_that_fails_is_an_error_row(tmp_path, data, samples, monkeypatch):
    real = gradient.option_scores

    def failing(vlm, questions, *rest, **options):
        if samples[1].id in [question.sample.id for question in questions]:
            raise FloatingPointError("no slope")
        return real(vlm, questions, *rest, **options)

    monkeypatch.setattr(gradient, "option_scores", failing)
    run = study(tmp_path, families=("pgd_low",), verify=0)
    errors = run.errors().set_index("sample_id")
    assert errors.loc[samples[1].id, ["stage", "message"]].tolist() == ["attack", "no slope"]
    assert sorted(run.records().query("family == 'pgd_low'").sample_id) == sorted([samples[0].id, samples[2].id])
