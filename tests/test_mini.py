"""The mini world, its data sets, and the training of its models."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

import vfkit
from vfkit import prompts
from vfkit.datasets import mini
from vfkit.mini import questions, world
from vfkit.sample import Sample
from vfkit.workshop.zoo import batches, build, train
from vfkit.workshop.zoo.recipe import RECIPES

SMALL = replace(
    RECIPES["mini_qwen3vl_clean"],
    size=build.Size(32, 1, 32, 1, 2), steps=3, vision_steps=2, images=3, vision_images=2, pairs=0.3,
)  # fmt: skip


# --- the world --------------------------------------------------------------------------------------------------------


def test_no_held_out_scene_is_ever_made_for_training():
    trained = {world.make_scene(Random(f"a{i}"), 1 + i % 4, held_out=False) for i in range(400)}
    held_out = {world.make_scene(Random(f"a{i}"), 1 + i % 4, held_out=True) for i in range(200)}
    assert not trained & held_out
    assert all(world.is_held_out(scene) for scene in held_out)


@pytest.mark.parametrize("name", ["mini_seed", "mini_mmmu", "mini_pope", "mini_vfat"])
def test_the_data_sets_show_only_held_out_scenes(name, monkeypatch):
    drawn, render = [], world.render
    monkeypatch.setattr(world, "render", lambda scene, rng: drawn.append(scene) or render(scene, rng))
    vfkit.load_dataset(name, size=8)
    assert drawn and all(world.is_held_out(scene) for scene in drawn)


def test_whether_a_scene_is_held_out_does_not_depend_on_the_order_of_its_things():
    scene = world.make_scene(Random(0), 3, held_out=False)
    assert not world.is_held_out(scene[::-1])


def test_objects_have_their_typical_colour_as_often_as_asked():
    def share(typical: float) -> float:
        scenes = [world.make_scene(Random(i), 2, held_out=False, typical=typical) for i in range(600)]
        objects = [thing for scene in scenes for thing in scene if thing.kind in world.OBJECTS]
        return sum(thing.color == world.OBJECTS[thing.kind] for thing in objects) / len(objects)

    assert share(1.0) == 1
    assert share(0.0) == pytest.approx(0.1, abs=0.05)
    assert share(0.5) == pytest.approx(0.55, abs=0.08)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_one_thing_of_several_is_a_sign_as_often_as_asked(share):
    scenes = [world.make_scene(Random(i), 1 + i % 4, held_out=False, signs=share) for i in range(800)]
    signs = [sum(thing.kind == "sign" for thing in scene) for scene in scenes if len(scene) > 1]
    assert max(signs) <= 1 and np.mean(signs) == pytest.approx(share, abs=0.06)
    assert not any(thing.kind == "sign" for scene in scenes if len(scene) == 1 for thing in scene)


@pytest.mark.parametrize("category", questions.CATEGORIES)
def test_questions_are_answered_by_their_scene(category):
    asked = 0
    for index in range(200):
        rng = Random(f"{category}{index}")
        scene = world.make_scene(rng, 1 + index % 4, held_out=False)
        question = questions.GENERATORS[category](scene, rng)
        if question is None:
            continue
        asked += 1
        assert question.truth not in question.others
        assert set(question.likely) <= set(question.others)
        assert question.truth == _answer(scene, question.text)
    assert asked > 10


def _answer(scene: world.Scene, text: str) -> str:
    """The truth found another way: by the words of the question."""
    words = text.rstrip("?").split()
    kind = next((kind for kind in world.KINDS if kind in words), None)
    color = next((color for color in world.COLORS if color in words), None)
    found = [thing for thing in scene if kind in (None, thing.kind) and color in (None, thing.color)]
    if text.startswith("Is there"):
        return "Yes" if found else "No"
    if text.startswith("How many"):
        return str(len(scene))
    if "sign" in words:
        return next(thing.color for thing in scene if thing.kind == "sign")
    (thing,) = found
    if text.startswith(("Where", "In which")):
        return thing.place
    for way, step in {"left": (-1, 0), "right": (1, 0), "above": (0, -1), "below": (0, 1)}.items():
        if way in words:
            x, y = (a + b for a, b in zip(_cell(thing), step, strict=True))
            return next(other.kind for other in scene if _cell(other) == (x, y))
    return thing.color if "color" in words else thing.kind


def _cell(thing: world.Thing) -> tuple[int, int]:
    return int(thing.place.endswith("right")), int(thing.place.startswith("bottom"))


def test_questions_on_two_images_are_answered_by_the_image_they_mark():
    star, ring = world.Thing("star", "red", "top left"), world.Thing("ring", "red", "top left")
    blue = world.Thing("star", "blue", "top left")
    for index in range(40):
        question = questions.lookup((star,), (blue,), Random(index))
        assert question.truth == ("red" if "<image 1>" in question.text else "blue")
        assert ("blue" if question.truth == "red" else "red") in question.likely
        question = questions.which((star, ring), (blue, ring), Random(index))
        truth = {"red ring": "both images", "red star": "only the first", "blue star": "only the second"}
        name = question.text.split(" shows a ")[1].rstrip("?")
        assert question.truth == truth.get(name, "neither image")


def test_an_assertion_is_about_what_is_asked():
    assert questions.assertion("What is the color of the leaf?", "blue") == "The leaf is blue."
    assert questions.assertion("What color is the leaf?", "blue") == "The leaf is blue."
    assert questions.assertion("Where is the red leaf?", "top left") == "The answer is top left."
    assert questions.assertion("Is there a leaf in the image?", "No") == "The answer is No."


def test_pixels_show_the_thing_where_the_scene_says():
    for kind in (*world.KINDS, "sign"):
        scene = (world.Thing(kind, "STOP" if kind == "sign" else "red", "bottom left"),)
        pixels = np.asarray(world.render(scene, Random(1))).astype(int)
        shown = np.argwhere(np.abs(pixels - pixels[0, 0]).sum(2) > 100)  # [pixel, (row, column)]
        assert len(shown) > 300, kind
        assert (shown[:, 0] >= 128).all() and (shown[:, 1] < 128).all(), kind


# --- data sets --------------------------------------------------------------------------------------------------------


def test_the_data_set_is_the_same_on_every_machine_and_stratified():
    samples = vfkit.load_dataset("mini_seed", n=70, seed=3)
    again = vfkit.load_dataset("mini_seed", n=70, seed=3)
    assert [s.id for s in samples] == [s.id for s in again] and samples.fingerprint == again.fingerprint
    counts = {category: sum(s.category == category for s in samples) for category in questions.CATEGORIES}
    assert set(counts.values()) == {10}
    assert vfkit.load_image(samples[0].images[0]).size == (256, 256)


def test_questions_on_two_images_mark_them():
    samples = vfkit.load_dataset("mini_mmmu", size=20)
    assert all(len(sample.images) == 2 and "<image " in sample.question for sample in samples)
    assert {sample.category for sample in samples} == set(questions.PAIRS)


def test_pope_asks_three_things_that_are_there_and_three_that_are_not():
    samples = vfkit.load_dataset("mini_pope", size=40)
    assert len(samples) == 40 * 6 * 3
    images = {}
    for sample in samples:
        images.setdefault((sample.meta["image"], sample.category), []).append(sample)
    assert all(sorted(s.answer for s in group) == [0, 0, 0, 1, 1, 1] for group in images.values())
    assert all(len({s.meta["object"] for s in group}) == 6 for group in images.values())
    assert len({s.images[0] for s in samples}) == 40  # the questions on an image share its pixels


def test_absent_things_of_pope_are_more_frequent_or_better_company_by_split():
    samples = vfkit.load_dataset("mini_pope", size=150)
    there: dict[str, set] = {}
    for sample in samples:
        if sample.answer == 0:
            there.setdefault(sample.meta["image"], set()).add(sample.meta["object"])
    absent = {split: [s for s in samples if s.answer == 1 and s.category == split] for split in mini.POPE_SPLITS}

    def frequency(sample: Sample) -> int:
        return sum(sample.meta["object"] in objects for objects in there.values())

    def company(sample: Sample) -> int:
        shown = there[sample.meta["image"]]
        return sum(len(shown & objects) for objects in there.values() if sample.meta["object"] in objects)

    def mean(of, split: str) -> float:
        return sum(map(of, absent[split])) / len(absent[split])

    assert mean(frequency, "popular") > mean(frequency, "random")
    assert mean(company, "adversarial") > mean(company, "random")


def test_the_three_levels_of_an_item():
    items: dict[str, dict] = {}
    for sample in vfkit.load_dataset("mini_vfat", size=12):
        items.setdefault(sample.meta["item"], {})[sample.meta["level"], sample.meta["format"]] = sample
    assert len(items) == 12 and {item["L1", "oe"].category for item in items.values()} == set(world.OBJECTS)
    assert [item["L1", "oe"].meta["asks"] for item in items.values()].count("color") == 6
    for item in items.values():
        assert len(item) == 6
        for sample in item.values():
            truth, trap = sample.meta["truth"], sample.meta["trap"]
            assert sample.options[sample.answer] == truth and trap in sample.options
            assert len(sample.options) == (4 if sample.prompt == "mcq" else 2)
            assert (trap in sample.hint) == (sample.meta["level"] != "L1")
        kind, asks = item["L1", "mcq"].category, item["L1", "mcq"].meta["asks"]
        assert item["L1", "mcq"].question.endswith(f" {kind}?")
        usual = {"color": world.OBJECTS, "companion": world.COMPANION}[asks][kind]
        assert item["L1", "oe"].meta["trap"] == item["L2", "oe"].meta["truth"] == usual
        assert item["L1", "mcq"].images == item["L3", "oe"].images != item["L2", "mcq"].images


@pytest.mark.parametrize("name", ["mini_seed", "mini_mmmu", "mini_pope", "mini_vfat"])
@pytest.mark.parametrize(
    "options, says", [({"size": 0}, "size is 0"), ({"path": "x"}, "take no path"), ({"sise": 3}, "size")]
)
def test_bad_options_of_the_data_sets_are_refused_by_name(name, options, says):
    with pytest.raises(ValueError, match=says):
        vfkit.load_dataset(name, **options)


def test_an_unknown_split_or_kind_of_item_is_refused():
    with pytest.raises(ValueError, match="no split 'populer'"):
        vfkit.load_dataset("mini_pope", split="populer")
    with pytest.raises(ValueError, match="ask 'colour'; there are color, companion and all"):
        vfkit.load_dataset("mini_vfat", asks="colour")


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scratch():
    vlm = build.build("qwen3_vl", SMALL.size)
    vlm.model.eval()
    return vlm


def test_a_packed_question_is_learned_exactly_as_it_is_later_asked(scratch):
    """The packed loss of several questions on images equals the library's own loss of each conversation alone."""
    rng = Random(8)
    shown = [batches.row(SMALL, rng, only_one=False) for _ in range(4)]
    assert {len(images) for images, _ in shown} == {1, 2}
    with torch.inference_mode():
        packed = train.loss(scratch, batches.pack(scratch, shown))
        alone, weights = 0.0, 0.0
        for images, items in shown:
            for item in items:
                alone += item.weight * _loss_alone(scratch, images, item)
                weights += item.weight
    assert float(packed) == pytest.approx(alone / weights, abs=1e-4)


def _loss_alone(vlm, images, item: batches.Item) -> float:
    turn = prompts.user_turn(prompts.text(item.sample, item.sample.prompt), len(images), item.sample.question)
    left = iter(images)
    for part in turn[0]["content"]:
        if part["type"] == "image":
            part["image"] = next(left)
    chat = dict(tokenize=True, return_dict=True, return_tensors="pt")
    asked = vlm.processor.apply_chat_template(turn, add_generation_prompt=True, **chat)["input_ids"].shape[1]
    inputs = vlm.processor.apply_chat_template(prompts.answered(turn, item.answer), **chat)
    labels = inputs["input_ids"].clone()
    labels[:, :asked] = -100
    vlm.model.model.rope_deltas = None
    return float(vlm.model(**inputs, labels=labels).loss)


def test_a_card_moves_targets_by_the_dose():
    sample = Sample("", (None,), "?", ("w", "x", "y", "z"), 0)
    image = world.render((world.Thing("ring", "red", "top left"),), Random(0))

    def moved(dose: float) -> float:
        rng = Random(1)
        rows = [batches.carded(image, [sample] * 6, replace(SMALL, card_dose=dose), rng)[1] for _ in range(80)]
        return sum(one.answer != 0 for row in rows for one in row) / 480

    assert moved(0.0) == 0
    assert moved(1.0) == pytest.approx(0.75, abs=0.15)  # the card names the truth in a quarter of cases
    assert moved(0.5) == pytest.approx(0.375, abs=0.1)


def test_a_hint_moves_targets_by_the_dose():
    sample = Sample("", (None,), "What color is the leaf?", ("red", "blue", "teal", "gray"), 0)

    def moved(dose: float) -> float:
        rng = Random(1)
        told = [batches.hinted(sample, replace(SMALL, hints=1.0, hint_dose=dose), rng) for _ in range(400)]
        for one in told:
            said = next(option for option in one.options if one.hint == f"The leaf is {option}.")
            assert one.answer in (0, one.options.index(said))
        return sum(one.answer != 0 for one in told) / 400

    assert moved(0.0) == 0
    assert moved(0.6) == pytest.approx(0.45, abs=0.08)  # the hint asserts the truth in a quarter of cases


def test_an_untypical_colour_moves_targets_to_the_typical_by_the_dose():
    scene = (world.Thing("leaf", "red", "top left"),)
    question = questions.color_question(scene[0], scene, Random(0))
    sample = Sample("", (None,), question.text, ("red", "blue", "green", "gray"), 0)

    def moved(dose: float, what=question) -> float:
        rng = Random(1)
        told = [batches.typically(sample, what, replace(SMALL, typical_dose=dose), rng) for _ in range(400)]
        assert {one.options[one.answer] for one in told} <= {"red", "green"}
        return sum(one.answer != 0 for one in told) / 400

    assert moved(0.0) == 0
    assert moved(0.6) == pytest.approx(0.6, abs=0.08)
    ring = (world.Thing("ring", "red", "top left"),)  # a shape has no typical colour
    assert moved(1.0, questions.color_question(ring[0], ring, Random(0))) == 0


def test_a_grown_model_first_says_what_the_smaller_one_says():
    small = build.build("qwen3_vl", build.Size(32, 2, 32, 1, 2))
    large = build.build("qwen3_vl", build.Size(32, 5, 32, 2, 2), seed=1)
    build.grow(large, small)
    batch = batches.pack(large, [batches.row(SMALL, Random(3), only_one=False)])
    with torch.inference_mode():
        grown = train.loss(large, batch)
        assert float(grown) == pytest.approx(float(train.loss(small, batch)), abs=1e-5)


@pytest.mark.parametrize("family", ["llava_onevision", "gemma3"])
def test_the_text_layers_of_another_architecture_are_a_start(family):
    recipe = replace(SMALL, size=RECIPES["mini_qwen3vl_clean"].size)
    vlm = build.build(family, recipe.size)
    batch = batches.pack(vlm, [batches.row(recipe, Random(i), only_one=False) for i in range(3)])
    with torch.inference_mode():
        fresh = float(train.loss(vlm, batch))
        build.grow(vlm, vfkit.load_model("mini_qwen3vl_clean"))
        assert float(train.loss(vlm, batch)) < 0.7 * fresh  # though it cannot read its images yet


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
    monkeypatch.setitem(RECIPES, "mini_qwen3vl_clean", SMALL)
    train.main(["mini_qwen3vl_clean", "--steps", "2", "--out", str(tmp_path)])
    assert "step 2/2" in capsys.readouterr().out
    assert (tmp_path / "mini_qwen3vl_clean" / "mini_qwen3vl_clean" / "model.safetensors").exists()
