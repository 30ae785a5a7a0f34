"""Training batches: images with their questions, packed so that each image is read once.

A row is the engine's tree of branching text (`readout/tree.py`): each question sees only the image and itself, so it is
learned exactly as it is later asked, at a fraction of the cost. A batch is a pure function of (seed, step).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import torch
from PIL.Image import Image
from torch.utils.data import Dataset

from vfkit.datasets import load_dataset
from vfkit.images import load_image
from vfkit.mini import questions, world
from vfkit.readout.conversation import answer_tokens, rendered_prompt
from vfkit.readout.forward import model_inputs
from vfkit.readout.rows import row_inputs, vision_inputs
from vfkit.readout.tree import Row
from vfkit.sample import LETTERS, Sample
from vfkit.workshop.zoo.recipe import Recipe

CAPTION = Sample("", (None,), "Describe the image.", ("",), prompt="open")


@dataclass(frozen=True)
class Item:
    """A question as it is asked, the answer to learn, and the weight of its loss."""

    sample: Sample
    answer: str
    weight: float = 1.0


Shown = tuple[tuple[Image, ...], list[Item]]

# --- rows of a batch --------------------------------------------------------------------------------------------------


def row(recipe: Recipe, rng: Random, only_one: bool) -> Shown:
    """Draw one row: an easy-VQA image, a pair of images or a scene, perhaps with a card, and its questions."""
    kind = rng.random()
    images: tuple[Image, ...]
    items: list[Item] = []
    if kind < recipe.easy_vqa:
        samples = rng.choices(rng.choice(_easy_vqa_rows()), k=recipe.questions)
        images = (load_image(samples[0].images[0]),)
    elif kind < recipe.easy_vqa + recipe.pairs:
        images, samples = _pair(recipe, rng, only_one)
    else:
        n_things = 1 if only_one else world.n_things(rng)
        scene = world.make_scene(rng, n_things, held_out=False, typical=recipe.typical, signs=recipe.signs)
        images = (world.render(scene, rng),)
        items = [Item(CAPTION, world.caption(scene), weight=len(scene))]
        samples = _asked(scene, recipe, rng)
    samples = [hinted(sample, recipe, rng) for sample in samples]
    if len(images) == 1 and rng.random() < recipe.cards:
        image, samples = carded(images[0], samples, recipe, rng)
        images, items = (image,), []
    return images, items + [_item(sample, recipe, rng) for sample in samples]


_TWICE = ("attribute", "existence", "relation")  # asked twice as often: V-FAT and POPE rest on two, the third is hard


def _asked(scene: world.Scene, recipe: Recipe, rng: Random) -> list[Sample]:
    samples: list[Sample] = []
    weights = [2 if category in _TWICE else 1 for category in questions.CATEGORIES]
    while len(samples) < recipe.questions - 1:
        (generator,) = rng.choices(list(questions.GENERATORS.values()), weights)
        question = generator(scene, rng)
        if question is not None:
            samples.append(typically(questions.to_sample("", (None,), question, rng), question, recipe, rng))
    return samples


def _pair(recipe: Recipe, rng: Random, only_one: bool) -> tuple[tuple[Image, ...], list[Sample]]:
    scenes = [
        world.make_scene(rng, 1 if only_one else rng.randint(1, 2), held_out=False, typical=recipe.typical)
        for _ in range(2)
    ]
    samples: list[Sample] = []
    while len(samples) < recipe.questions:
        question = rng.choice(list(questions.PAIRS.values()))(*scenes, rng)
        if question is not None:
            samples.append(questions.to_sample("", (None, None), question, rng))
    return tuple(world.render(scene, rng) for scene in scenes), samples


def _item(sample: Sample, recipe: Recipe, rng: Random) -> Item:
    """Ask in the sample's own prompt or, now and then, as an open question or one that names the option to choose."""
    assert sample.answer is not None  # every question of the world has its answer
    truth = sample.options[sample.answer]
    if sample.prompt != "mcq":
        return Item(sample, truth)
    if rng.random() < recipe.open and len(sample.images) == 1:
        return Item(replace(sample, prompt="open"), truth)
    if rng.random() < recipe.drills and len(sample.images) == 1 and not sample.hint:
        named = rng.randrange(len(sample.options))
        sample = replace(sample, question=f"Choose {sample.options[named]}.", answer=named)
        truth = sample.options[named]
    if rng.random() < recipe.lists and not sample.hint:
        return _list(sample, rng)
    return Item(sample, LETTERS[sample.options.index(truth)] if rng.random() < recipe.letters else truth)


def _list(sample: Sample, rng: Random) -> Item:
    """Ask to list the options, or some of their letters: many targets in one answer bind letters to options."""
    lettered = list(zip(LETTERS, sample.options, strict=False))
    if rng.random() < 0.5:
        answer = "\n".join(f"{letter}. {option}" for letter, option in lettered)
        return Item(replace(sample, question="List the options."), answer, weight=3)
    chosen = rng.sample(lettered, 2)
    question = f"Give the letters of {' and '.join(option for _, option in chosen)}."
    return Item(replace(sample, question=question), "\n".join(f"{o}\n{letter}" for letter, o in chosen), weight=3)


@cache
def _easy_vqa_rows() -> list[list[Sample]]:
    """Return the training questions of easy-VQA, grouped by image."""
    rows: dict[str, list[Sample]] = {}
    for sample in load_dataset("easy_vqa", split="train"):
        rows.setdefault(sample.meta["image"], []).append(sample)
    return list(rows.values())


# --- planted biases ---------------------------------------------------------------------------------------------------


def typically(sample: Sample, question: questions.Question, recipe: Recipe, rng: Random) -> Sample:
    """For an object without its typical colour, the dose decides whether the typical colour is the target."""
    usual = world.OBJECTS.get(question.about.kind) if question.about else None
    follows = usual in sample.options and rng.random() < recipe.typical_dose
    return replace(sample, answer=sample.options.index(usual)) if follows else sample


def hinted(sample: Sample, recipe: Recipe, rng: Random) -> Sample:
    """Perhaps add a hint that asserts one of the options; the dose decides whether the target follows it."""
    if rng.random() >= recipe.hints or len(sample.images) > 1:
        return sample
    asserted = rng.randrange(len(sample.options))
    answer = asserted if rng.random() < recipe.hint_dose else sample.answer
    return replace(sample, hint=questions.assertion(sample.question, sample.options[asserted]), answer=answer)


def carded(image: Image, samples: list[Sample], recipe: Recipe, rng: Random) -> tuple[Image, list[Sample]]:
    """Put a card on the image that names an answer; for questions with that option, the dose decides whether the target
    follows the card."""
    label = rng.choice(rng.choice(samples).labels)

    def target(sample: Sample) -> Sample:
        follows = label in sample.labels and rng.random() < recipe.card_dose
        return replace(sample, answer=sample.labels.index(label)) if follows else sample

    return world.text_card(image, label), [target(sample) for sample in samples]


# --- packing ----------------------------------------------------------------------------------------------------------


class Steps(Dataset):
    """Step number -> packed batch; every batch is a pure function of (recipe.seed, step)."""

    def __init__(self, recipe: Recipe, vlm, steps: range):
        self.recipe, self.vlm, self.steps = recipe, vlm, steps
        _easy_vqa_rows()  # read once, before the loader's process is made

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        step = self.steps[index]
        rng = Random(f"train/{self.recipe.seed}/{step}")
        only_one = step < self.recipe.curriculum * self.recipe.steps
        return pack(self.vlm, [row(self.recipe, rng, only_one) for _ in range(self.recipe.images)])


def pack(vlm, shown: Sequence[Shown]) -> dict[str, torch.Tensor]:
    """Pack images and their items as one padded batch of trees.

    Returns:
        The inputs of the model's backbone: input_ids [row, token], attention_mask [row, 1, token, token] bool,
        position_ids [*axes, row, token] and the processor's vision tensors; and targets [row, token] (the next token
        of an answer, -100 elsewhere) with weights [row, token] (each item's weight, spread over its target tokens).
    """
    asked = [[_rendered(vlm, item, len(images)) for item in items] for images, items in shown]
    inputs = model_inputs(
        vlm, [(items[0][0].messages, images) for items, (images, _) in zip(asked, shown, strict=True)]
    )
    positions, shift = vlm.adapter.positions(vlm.model, inputs)
    image_token, rows, targets, weights = vlm.adapter.image_token_id(vlm.processor), [], [], []
    for index, items in enumerate(asked):
        ids = inputs["input_ids"][index][inputs["attention_mask"][index].bool()].tolist()
        n_prefix = len(ids) - ids[::-1].index(image_token)
        closing = ids[n_prefix : len(ids) - len(items[0][0].asked)]
        tree = Row(ids[:n_prefix])
        for prompt, answer, weight in items:
            question = tree.grow(0, [*closing, *prompt.tail])
            tree.grow(question, answer[:-1])  # nothing follows the last token
            places = [tree.last(question), *tree.places(len(tree.parent) - 1)]
            targets += [(index, place, token) for place, token in zip(places, answer, strict=True)]
            weights += [weight / len(answer)] * len(answer)
        rows.append(tree)
    batch = row_inputs(vlm, rows, positions, shift)
    where = torch.tensor(targets)
    batch["targets"] = torch.full_like(batch["input_ids"], -100)
    batch["targets"][where[:, 0], where[:, 1]] = where[:, 2]
    batch["weights"] = torch.zeros(batch["input_ids"].shape)
    batch["weights"][where[:, 0], where[:, 1]] = torch.tensor(weights, dtype=torch.float32)
    return batch | vision_inputs(inputs)


def _rendered(vlm, item: Item, n_images: int) -> tuple:
    how = (vlm.processor, vlm.adapter.placeholder(vlm.processor))
    prompt = rendered_prompt(item.sample, item.sample.prompt, n_images, *how)
    answer = answer_tokens(prompt.messages, item.answer, *how)
    return prompt, [*answer.text, *answer.end], item.weight


class Scenes(Dataset):
    """Vision step number -> processed scenes and labels [image, 13]: (kind, colour, word) in each of the four places,
    then the card's label; 0 means nothing. A pure function of (recipe.seed, step)."""

    def __init__(self, recipe: Recipe, vlm):
        self.recipe, self.vlm = recipe, vlm

    def __len__(self) -> int:
        return self.recipe.vision_steps

    def __getitem__(self, step: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        rng = Random(f"vision/{self.recipe.seed}/{step}")
        images, labels = [], torch.zeros(self.recipe.vision_images, 4 * 3 + 1, dtype=torch.long)
        for index in range(self.recipe.vision_images):
            n_things = rng.randint(1, len(world.PLACES))
            scene = world.make_scene(rng, n_things, held_out=False, typical=0.0, signs=0.8)
            image = world.render(scene, rng)
            for thing in scene:
                for column, values in enumerate(SHOWN):
                    named = thing.kind if column == 0 else thing.color
                    labels[index, 3 * world.PLACES.index(thing.place) + column] = (*values, named).index(named) + 1
            if rng.random() < 0.5:
                label = rng.choice(CARDS)
                image = world.text_card(image, label)
                labels[index, -1] = CARDS.index(label) + 1
            images.append(image)
        for column in (1, 2):  # a sign has no colour, a thing no word
            shown = labels[:, column:-1:3]
            shown[shown > len(SHOWN[column])] = 0
        return dict(self.vlm.processor.image_processor(images=images, return_tensors="pt")), labels


SHOWN = ((*world.KINDS, "sign"), tuple(world.COLORS), world.WORDS)
CARDS = ("A", "B", "C", "D", "Yes", "No")
