"""The mini world, its data set, its training, and what the embedded model has learned."""

import json
from dataclasses import replace
from random import Random

import pytest
import torch

import vfkit
from vfkit import prompts
from vfkit.mini import batches, build, train, world
from vfkit.mini.recipe import RECIPES
from vfkit.models import registry
from vfkit.readout.engine import read_many
from vfkit.sample import Sample

SMALL = replace(
    RECIPES["mini_qwen3vl"], size=build.Size(32, 1, 32, 1, 2), steps=3, vision_steps=2, images=2, vision_images=2
)


# --- the world --------------------------------------------------------------------------------------------------------


def test_no_held_out_scene_is_ever_made_for_training():
    trained = {world.make_scene(Random(f"a{i}"), 1 + i % 4, held_out=False) for i in range(400)}
    held_out = {world.held_out(i)[0] for i in range(200)}
    assert not trained & held_out
    assert all(world.is_held_out(scene) for scene in held_out)


def test_whether_a_scene_is_held_out_does_not_depend_on_the_order_of_its_things():
    scene = world.make_scene(Random(0), 3, held_out=False)
    assert not world.is_held_out(scene[::-1])


@pytest.mark.parametrize("category", world.CATEGORIES)
def test_questions_are_answered_by_their_scene(category):
    for index in range(60):
        rng = Random(f"{category}{index}")
        scene = world.make_scene(rng, 1 + index % 4, held_out=False)
        question = world.GENERATORS[category](scene, rng)
        if question is None:
            continue
        assert question.truth not in question.others
        assert set(question.likely) <= set(question.others)
        assert question.truth == _answer(scene, question.text)


def _answer(scene: world.Scene, text: str) -> str:
    """The truth found another way: by the words of the question."""
    words = text.lower().rstrip("?").split()
    shape = next((shape for shape in world.SHAPES if shape in words), None)
    color = next((color for color in world.COLORS if color in words), None)
    found = [thing for thing in scene if shape in (None, thing.shape) and color in (None, thing.color)]
    if text.startswith("Is there"):
        return "Yes" if found else "No"
    if text.startswith("How many"):
        return str(len(scene))
    assert len(found) == 1
    if text.startswith(("Where", "In which")):
        return found[0].place
    return found[0].color if "color" in words else found[0].shape


def test_pixels_show_the_thing_where_the_scene_says():
    scene = (world.Thing("circle", "red", "bottom left"),)
    image = world.render(scene, Random(1))
    red = [
        (x, y)
        for x in range(0, 256, 4)
        for y in range(0, 256, 4)
        if image.getpixel((x, y))[0] > 150 > image.getpixel((x, y))[1]
    ]
    assert red and all(x < 128 <= y for x, y in red)


def test_the_data_set_is_the_same_on_every_machine_and_stratified():
    samples = vfkit.load_dataset("mini_seed", n=50, seed=3)
    again = vfkit.load_dataset("mini_seed", n=50, seed=3)
    assert [s.id for s in samples] == [s.id for s in again] and samples.fingerprint == again.fingerprint
    counts = {category: sum(s.category == category for s in samples) for category in world.CATEGORIES}
    assert set(counts.values()) == {10}
    assert vfkit.load_image(samples[0].images[0]).size == (256, 256)


@pytest.mark.parametrize(
    "options, says", [({"size": 0}, "size is 0"), ({"path": "x"}, "takes no path"), ({"sise": 3}, "size")]
)
def test_bad_options_of_the_data_set_are_refused_by_name(options, says):
    with pytest.raises(ValueError, match=says):
        vfkit.load_dataset("mini_seed", **options)


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scratch():
    tokenizer = build.build_tokenizer()
    return build.build_processor(SMALL.size, tokenizer), build.build_model(SMALL.size, tokenizer)


def test_a_packed_question_is_learned_exactly_as_it_is_later_asked(scratch):
    """The packed loss of several questions on images equals the library's own loss of each conversation alone."""
    processor, model = scratch
    model.eval()
    rng = Random(7)
    rows = [batches._scene_row(SMALL, rng, only_one=False) for _ in range(2)]
    images = [image for image, _ in rows]
    items = [[batches._item(sample, SMALL, rng) for sample in samples] for _, samples in rows]
    with torch.inference_mode():
        packed = train.loss(model, batches.pack(processor, images, items))
        alone, weights = 0.0, 0.0
        for image, row in zip(images, items, strict=True):
            for item in row:
                alone += item.weight * _loss_alone(processor, model, image, item)
                weights += item.weight
    assert float(packed) == pytest.approx(alone / weights, abs=1e-4)


def _loss_alone(processor, model, image, item: batches.Item) -> float:
    turn = prompts.user_turn(item.prompt, 1)
    turn[0]["content"][0]["image"] = image
    chat = dict(tokenize=True, return_dict=True, return_tensors="pt")
    asked = processor.apply_chat_template(turn, add_generation_prompt=True, **chat)["input_ids"].shape[1]
    inputs = processor.apply_chat_template(prompts.answered(turn, item.answer), **chat)
    labels = inputs["input_ids"].clone()
    labels[:, :asked] = -100
    return float(model(**inputs, labels=labels).loss)


def test_a_card_moves_targets_by_the_dose():
    sample = Sample("", (None,), "?", ("w", "x", "y", "z"), 0)
    image = world.render((world.Thing("ring", "red", "top left"),), Random(0))

    def moved(dose: float) -> float:
        rng = Random(1)
        rows = [batches._carded(image, [sample] * 6, replace(SMALL, card_dose=dose), rng)[1] for _ in range(80)]
        return sum(one.answer != 0 for row in rows for one in row) / 480

    assert moved(0.0) == 0
    assert moved(1.0) == pytest.approx(0.75, abs=0.15)  # the card names the truth in a quarter of cases
    assert moved(0.5) == pytest.approx(0.375, abs=0.1)


def test_training_runs_resumes_and_leaves_a_checkpoint_and_repeats_itself(tmp_path):
    whole = list(train.train("tiny", SMALL, tmp_path / "a"))
    assert [step for step, _ in whole] == [-1, 0, 1, 2, 3]
    assert list(train.train("tiny", SMALL, tmp_path / "b")) == whole
    assert vfkit.load_model(str(tmp_path / "a" / "tiny")).model.num_parameters() > 0
    assert list(train.train("tiny", SMALL, tmp_path / "a")) == []
    with pytest.raises(ValueError, match="another recipe"):
        next(train.train("tiny", replace(SMALL, lr=1.0), tmp_path / "a"))


def test_an_interrupted_training_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    whole = list(train.train("tiny", SMALL, tmp_path / "whole"))
    monkeypatch.setattr(train, "SAVE_SECONDS", 0)
    first = train.train("tiny", SMALL, tmp_path / "halves")
    for step, _ in first:
        if step == 2:  # the state after step 1 is saved by now
            first.close()
            break
    rest = list(train.train("tiny", SMALL, tmp_path / "halves"))
    assert rest == whole[-len(rest) :] and rest[0][0] == 2


def test_the_command_trains_by_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(RECIPES, "mini_qwen3vl", SMALL)
    train.main(["mini_qwen3vl", "--steps", "2", "--out", str(tmp_path)])
    assert "step 2/2" in capsys.readouterr().out
    assert (tmp_path / "mini_qwen3vl" / "mini_qwen3vl" / "model.safetensors").exists()


# --- the embedded model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data, least", [("mini_seed", 0.8), ("easy_vqa", 0.85)])
def test_the_embedded_model_has_learned_what_its_card_says(vlm, data, least):
    samples = vfkit.load_dataset(data, n=400, seed=11)
    readouts = read_many(vlm, [(sample, (vfkit.load_image(sample.images[0]),)) for sample in samples])
    right = [readout.prediction() == sample.answer for sample, readout in zip(samples, readouts, strict=True)]
    assert sum(right) / len(right) >= least
    card = json.loads((registry.files(registry.find("mini_qwen3vl")) / "card.json").read_text())
    label = {"mini_seed": "mini world, held-out scenes", "easy_vqa": "easy-VQA, test split"}[data]
    (stated,) = [row["value"] for row in card if row["data"] == label and row["category"] == "all"]
    assert sum(right) / len(right) == pytest.approx(stated, abs=0.07)


def test_the_embedded_model_is_far_above_chance_in_every_category():
    card = json.loads((registry.files(registry.find("mini_qwen3vl")) / "card.json").read_text())
    for row in card:
        assert row["low"] > row["chance"] + 0.1, row
