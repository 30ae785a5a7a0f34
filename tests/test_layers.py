"""The hooked engine against plain forward passes: states, margins, patches, hidden tokens and attention by layer."""

import numpy as np
import pytest
import tiny
import torch
from PIL import Image

from vfkit.inside import MEASURES, layers, sensitivity
from vfkit.inside.attribute import Asked, attribute
from vfkit.inside.layers import Knockout, Patch
from vfkit.inside.passes import edited_scores, read_scenes
from vfkit.inside.scene import make_scene, region, token_boxes
from vfkit.inside.verify import differences, verify_inside
from vfkit.perturb import natural_suite
from vfkit.readout import engine
from vfkit.readout.verify import VerifyError
from vfkit.sample import Instance, Sample

CLOSE = 1e-4
ASKED = Asked("paper", MEASURES)
SAMPLE = Sample("one", (), "Where is it?", ("top left", "bottom right", "an unheard-of place"), 0)
PAIR = Sample("two", (), "Is <image 1> as red as <image 2>?", ("as red", "less"), 0)


def _image(seed: int, size: tuple[int, int] = (96, 60)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def _card(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    image = image.copy()
    image.paste("white", box)
    return image


@pytest.mark.parametrize("name", tiny.ALL)
def test_every_tap_patch_and_knockout_equals_its_plain_counterpart(tiny_vlm, name):
    vlm = tiny_vlm(name)
    several = name in ("qwen3_vl", "llava_onevision", "internvl")
    for sample, images in ((SAMPLE, 1), (PAIR, 2))[: 1 + several]:
        base, other = (tuple(_image(seed + i) for i in range(images)) for seed in (0, 5))
        found = differences(vlm, (sample, base), (sample, other), ASKED)
        assert len(found) == 8 and max(found.values()) <= CLOSE, found
        assert found["own states patched"] == 0


def test_embedded_models_too(vlm):
    base, other = ((_image(seed, (112, 112)),) for seed in (0, 1))
    assert verify_inside(vlm, (SAMPLE, base), (SAMPLE, other), ASKED) <= CLOSE


def test_the_last_layers_margin_is_the_ordinary_one(tiny_vlm):
    vlm = tiny_vlm("gemma3")
    for rule in ("paper", "text_mean", "letter"):
        (reading,) = read_scenes(vlm, [make_scene(vlm, SAMPLE, [_image(3)])], rule)
        (readout,) = engine.read_many(vlm, [(SAMPLE, (_image(3),))])
        assert len(reading.scores) == len(layers.text_layers(vlm)) + 1
        assert reading.scores[-1] == pytest.approx(readout.scores(rule), abs=CLOSE)
        assert np.abs(reading.scores[0] - reading.scores[-1]).max() > 0.01


def test_image_tokens_at_layer_0_restore_all_only_with_deepstack(tiny_vlm, monkeypatch):
    """What is added to image tokens after the first layers undoes a patch of states alone: `verify` must see it."""
    vlm = tiny_vlm("qwen3_vl")
    requests = [(SAMPLE, (_image(seed),)) for seed in (0, 1)]
    (reading,) = read_scenes(vlm, [make_scene(vlm, *requests[0])], "paper")
    assert len(reading.states.added) == len(reading.states.after) == 2
    assert differences(vlm, *requests, ASKED)["all image tokens patched"] <= CLOSE
    monkeypatch.setattr(layers, "_patch_features", lambda patches, module, args, inputs: None)
    assert differences(vlm, *requests, ASKED)["all image tokens patched"] > 0.01
    with pytest.raises(VerifyError, match="layers and oracle disagree on sample 'one'"):
        verify_inside(vlm, *requests, ASKED)


def test_a_hidden_token_says_nothing_to_the_others(tiny_vlm):
    """With all image tokens hidden in all layers, no image can matter: only what else a prompt holds."""
    vlm = tiny_vlm("internvl")
    scores = []
    for seed in (0, 1):
        scene = make_scene(vlm, SAMPLE, [_image(seed)])
        (reading,) = read_scenes(vlm, [scene], "paper")
        edits = [None, Knockout(reading.places["image"], range(3)), Knockout(reading.places["image"], range(1, 3))]
        scores.append(edited_scores(vlm, scene, edits, "paper"))
    apart = np.abs(scores[0] - scores[1]).max(axis=1)
    assert apart[1] <= 1e-5 < 0.01 < min(apart[0], apart[2])


def test_edits_of_a_batch_stay_in_their_rows(tiny_vlm):
    vlm = tiny_vlm("qwen2_5_vl")
    scene = make_scene(vlm, SAMPLE, [_image(0)])
    (donor,) = read_scenes(vlm, [make_scene(vlm, SAMPLE, [_image(1)])], "paper")
    image = donor.places["image"]
    edits = [Patch(1, image, donor.states), None, Knockout(image[:4], range(2)), Patch(2, image[:1], donor.states)]
    together = edited_scores(vlm, scene, edits, "paper")
    alone = [edited_scores(vlm, scene, [edit], "paper")[0] for edit in edits]
    assert together == pytest.approx(np.array(alone), abs=1e-5)
    assert edited_scores(vlm, scene, edits, "paper", batch_tokens=1) == pytest.approx(together, abs=1e-5)
    assert len({round(float(row[0]), 4) for row in together}) == 4


@pytest.mark.parametrize("name", tiny.ALL)
def test_a_region_is_the_tokens_whose_pixels_changed(tiny_vlm, name):
    """A card in the upper left quarter of an image: its tokens, tiles among them, and no others, move at layer 0."""
    vlm = tiny_vlm(name)
    image = _image(0, (64, 64) if name != "internvl" else (128, 64))
    card = _card(image, (0, 0, image.width // 2, image.height // 2))
    (reading,) = read_scenes(vlm, [make_scene(vlm, SAMPLE, [image])], "paper")
    (boxes,) = reading.boxes
    assert len(boxes) == len(reading.places["image"])
    tokens = region([image], [card], reading.boxes)
    shown = boxes.isfinite().all(dim=1)
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = shown & (middle < 0.5).all(dim=1)
    assert set(torch.nonzero(inside).flatten().tolist()) <= set(tokens)
    assert all(bool((boxes[token, :2] < 0.5).all()) for token in tokens)
    areas = (boxes[shown, 2:] - boxes[shown, :2]).prod(dim=1)
    assert float(areas.sum()) == pytest.approx(round(float(areas.sum())), abs=1e-4)  # whole images: views and tiles
    assert region([image], [image], reading.boxes) == region([image], [_image(1, image.size)], reading.boxes) == []


def test_tiles_of_llava_and_their_row_ends(tiny_vlm):
    vlm = tiny_vlm("llava_onevision")
    (boxes,) = token_boxes(vlm, [_image(0, (64, 32))], [(4, 4)])
    tiles = boxes[16:].reshape(4, 9, 4)  # two tiles side by side: 4 rows of 8 tokens and an end
    assert tiles[:, -1].isnan().all() and not tiles[:, :-1].isnan().any()
    assert tiles[1, 2].tolist() == pytest.approx([2 / 8, 1 / 4, 3 / 8, 2 / 4])
    pair = token_boxes(vlm, [_image(0), _image(1)], [(4, 4), (4, 4)])
    assert [len(each) for each in pair] == [17, 17] and all(each[-1].isnan().all() for each in pair)


def test_rows_of_a_sample(tiny_vlm):
    """All measures of one sample: what is recorded, and what says why it does not apply."""
    vlm = tiny_vlm("qwen3_vl")
    image = _image(0)
    instances = natural_suite(["identity", "translation", "rotation", "text_overlay"]).instances(SAMPLE, 0, [image])
    controls = [Instance("same_question", "other", {}, (_image(1),))]
    rows = attribute(vlm, SAMPLE, [image], 0, instances, controls, ASKED._replace(layers=(0, 2, 3)))
    assert {row["layer"] for row in rows["layers"]} == {0, 2, 3}
    assert {row["layer"] for row in rows["lens"]} == {0, 1, 2, 3}
    same = [row for row in rows["layers"] if row["family"] == "identity"]
    assert same and all(row["l2"] == row["l2_tokens"] == row["pixels_l2"] == 0 for row in same)
    turned = [row for row in rows["layers"] if row["family"] == "rotation" and row["place"] == "image"]
    assert turned and all("l2_tokens" not in row for row in turned)  # on another grid
    assert {row["point"] for row in rows["layers"]} == {"state", "before DeepStack"}
    reasons = {row["family"]: row["reason"] for row in rows["edits"] if row["kind"] == "patch"}
    assert reasons["rotation"] == "its image tokens are on another grid"
    assert reasons["identity"].startswith("its margin fell by less than")
    assert all(abs(sum(row[f"on_{k}"] for k in ("image", "question", "answer")) - 1) < 0.5 for row in rows["attention"])
    assert len(rows["radius"]) == 1 and rows["radius"][0]["radius"] > 0
    with pytest.raises(ValueError, match="layers 0 to 2"):
        attribute(vlm, SAMPLE, [image], 0, instances, [], ASKED._replace(layers=(7,)))


def test_the_radius_of_linear_scores_is_exact():
    """Scores that are linear in the inputs: every smaller change keeps the answer, the radius itself reaches a tie."""
    draw = torch.Generator().manual_seed(0)
    weights, x = torch.randn(4, 30, generator=draw), torch.rand(30, generator=draw).requires_grad_()
    found = sensitivity.nearest_rival(weights @ x, [x])
    label, rival, radius = found["prediction"], found["rival"], found["radius"] / 255
    for other in set(range(4)) - {label}:
        towards = radius * torch.sign(weights[other] - weights[label])
        lead = (weights[label] - weights[other]) @ (x + towards).detach()
        assert float(lead) == pytest.approx(0, abs=1e-5) if other == rival else float(lead) > 0
    assert found["margin"] >= 0 and found["slope"] == pytest.approx(
        float((weights[label] - weights[rival]).abs().sum())
    )
    with pytest.raises(ValueError, match="no rival"):
        sensitivity.nearest_rival((weights @ x)[:1], [x])


def test_the_slope_predicts_a_small_change_of_pixels(vlm):
    """The gradient through the model's own processor, against the scores of an image moved along it."""
    scene = make_scene(vlm, SAMPLE, [_image(2, (112, 112))])
    found = sensitivity.linear_radius(vlm, scene, "paper")
    from vfkit.readout import gradient

    (plane,) = (each.requires_grad_() for each in gradient.to_planes(scene.images, vlm.device))
    (scores,) = gradient.option_scores(vlm, [scene.question], [(plane,)], "paper")
    lead = scores[found["prediction"]] - scores[found["rival"]]
    (slope,) = torch.autograd.grad(lead, plane)
    step = 1e-4
    moved = (plane + step * slope.sign()).detach()
    (after,) = gradient.option_scores(vlm, [scene.question], [(moved,)], "paper", exact=False)
    (before,) = gradient.option_scores(vlm, [scene.question], [(plane.detach(),)], "paper", exact=False)
    change = float((after - before)[found["prediction"]] - (after - before)[found["rival"]])
    assert change == pytest.approx(step * found["slope"], rel=0.1)
