"""What a training step shows: images with questions, packed so that an image is read once for all of them.

A block mask lets each question see the image and itself alone, so that every question is learned exactly as it is later
asked, at a fraction of the price. A batch is a pure function of (seed, step).
"""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

import torch
from PIL.Image import Image
from torch.utils.data import Dataset

from vfkit import prompts
from vfkit.datasets import load_dataset
from vfkit.images import load_image
from vfkit.mini import world
from vfkit.mini.recipe import Recipe
from vfkit.sample import LETTERS, Sample

CAPTION = Sample("", (None,), "Describe the image.", ("",))


@dataclass(frozen=True)
class Item:
    """One question turned to text: what follows the image, the answer, and the weight of its loss."""

    prompt: str
    answer: str
    weight: float = 1.0


# --- what a step shows ------------------------------------------------------------------------------------------------


def _item(sample: Sample, recipe: Recipe, rng: Random) -> Item:
    """Asked in the sample's own prompt, or now and then as an open question; captions are always open."""
    if len(sample.options) == 1:
        return Item(prompts.text(sample, "open"), sample.options[0], sample.meta["weight"])
    truth = sample.options[sample.answer]
    if sample.prompt == "yes_no":
        return Item(prompts.text(sample, "yes_no"), truth)
    if rng.random() < recipe.open:
        return Item(prompts.text(sample, "open"), truth)
    return Item(prompts.text(sample, "mcq"), LETTERS[sample.answer] if rng.random() < recipe.letters else truth)


def _scene_row(recipe: Recipe, rng: Random, only_one: bool) -> tuple[Image, list[Sample]]:
    scene = world.make_scene(rng, 1 if only_one else world.n_things(rng), held_out=False)
    samples = [replace(CAPTION, options=(world.caption(scene),), meta={"weight": len(scene)})]
    while len(samples) < recipe.questions:
        question = rng.choice(list(world.GENERATORS.values()))(scene, rng)
        if question is not None:
            samples.append(world.to_sample("", None, question, rng))
    return world.render(scene, rng), samples


def _carded(image: Image, samples: list[Sample], recipe: Recipe, rng: Random) -> tuple[Image, list[Sample]]:
    """A card on the image names an answer; where it names one of a question's options, the dose decides whether
    the target is what the card says or what the image shows."""
    asked = [sample for sample in samples if len(sample.options) > 1]
    label = rng.choice(rng.choice(asked).labels)

    def target(sample: Sample) -> Sample:
        follows = label in sample.labels and rng.random() < recipe.card_dose
        return replace(sample, answer=sample.labels.index(label)) if follows else sample

    return world.text_card(image, label), [target(sample) for sample in asked]


@cache
def _easy_vqa_rows() -> list[list[Sample]]:
    """Training questions of easy-VQA, grouped by image."""
    rows: dict[str, list[Sample]] = {}
    for sample in load_dataset("easy_vqa", split="train"):
        rows.setdefault(sample.meta["image"], []).append(sample)
    return list(rows.values())


class Steps(Dataset):
    """Step number -> packed batch; every batch is a pure function of (recipe.seed, step)."""

    def __init__(self, recipe: Recipe, processor, steps: range):
        self.recipe, self.processor, self.steps = recipe, processor, steps
        self.easy_vqa = _easy_vqa_rows()

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        step = self.steps[index]
        rng = Random(f"train/{self.recipe.seed}/{step}")
        only_one = step < self.recipe.curriculum * self.recipe.steps
        images, rows = [], []
        for _ in range(self.recipe.images):
            if rng.random() < self.recipe.easy_vqa:
                samples = rng.choices(rng.choice(self.easy_vqa), k=self.recipe.questions)
                image = load_image(samples[0].images[0])
            else:
                image, samples = _scene_row(self.recipe, rng, only_one)
            if rng.random() < self.recipe.cards:
                image, samples = _carded(image, samples, self.recipe, rng)
            images.append(image)
            rows.append([_item(sample, self.recipe, rng) for sample in samples])
        return pack(self.processor, images, rows)


# --- packing ----------------------------------------------------------------------------------------------------------


def pack(processor, images: list[Image], rows: list[list[Item]]) -> dict[str, torch.Tensor]:
    """Images and their items as one padded batch with a block mask.

    Returns:
        input_ids [row, token]; position_ids [3, row, token] (each item's positions start right after the image);
        attention_mask [row, 1, token, token] bool (an item sees the prefix and, causally, itself);
        targets [row, token] (the next token of an answer, -100 elsewhere); weights [row, token] (each item's weight,
        spread over its target tokens); pixel_values, image_grid_thw as the processor gives them.
    """
    vision = processor.image_processor(images=images, return_tensors="pt")
    tokenizer, merge = processor.tokenizer, processor.image_processor.merge_size
    encoded = []
    for row, (_, height, width) in zip(rows, vision["image_grid_thw"].tolist(), strict=True):
        n_image = height * width // merge**2
        prefix, suffixes = None, []
        for item in row:
            messages = prompts.user_turn(item.prompt, n_images=1)
            asked = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            whole = processor.apply_chat_template(prompts.answered(messages, item.answer), tokenize=False)
            head, question = asked.split(processor.image_token)
            prefix = tokenizer(head)["input_ids"] + [processor.image_token_id] * n_image
            ids = tokenizer(question)["input_ids"]
            suffixes.append(
                (ids, tokenizer(whole.split(processor.image_token)[1])["input_ids"][len(ids) :], item.weight)
            )
        encoded.append((prefix, height // merge, width // merge, suffixes))
    length = max(len(prefix) + sum(len(q) + len(a) for q, a, _ in items) for prefix, _, _, items in encoded)
    shape = (len(rows), length)
    batch = {
        "input_ids": torch.full(shape, tokenizer.pad_token_id),
        "position_ids": torch.zeros(3, *shape, dtype=torch.long),
        "attention_mask": torch.eye(length, dtype=torch.bool).expand(len(rows), 1, length, length).clone(),
        "targets": torch.full(shape, -100),
        "weights": torch.zeros(shape),
    }
    for index, (prefix, height, width, items) in enumerate(encoded):
        start = len(prefix)
        positions, following = _prefix_positions(start - height * width, height, width)
        batch["input_ids"][index, :start] = torch.tensor(prefix)
        batch["position_ids"][:, index, :start] = positions
        batch["attention_mask"][index, 0, :, :start] = True
        batch["attention_mask"][index, 0, :start, :start] = torch.ones(start, start, dtype=torch.bool).tril()
        for question, answer, weight in items:
            n = len(question) + len(answer)
            end = start + n
            batch["input_ids"][index, start:end] = torch.tensor(question + answer)
            batch["position_ids"][:, index, start:end] = torch.arange(following, following + n)
            batch["attention_mask"][index, 0, start:end, start:end] = torch.ones(n, n, dtype=torch.bool).tril()
            target = slice(start + len(question) - 1, end - 1)
            batch["targets"][index, target] = torch.tensor(answer)
            batch["weights"][index, target] = weight / len(answer)
            start = end
    return {**batch, "pixel_values": vision["pixel_values"], "image_grid_thw": vision["image_grid_thw"]}


def _prefix_positions(n_head: int, height: int, width: int) -> tuple[torch.Tensor, int]:
    """Qwen3-VL positions [3, token] of head text followed by an image grid, and the first position after it."""
    head = torch.arange(n_head).expand(3, -1)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    grid = torch.stack([torch.zeros_like(rows), rows, columns]).reshape(3, -1) + n_head
    return torch.cat([head, grid], dim=1), n_head + max(height, width)


class Scenes(Dataset):
    """Vision step number -> drawn scenes as the processor gives them, and what stands in each of their four places:
    labels [image, place, (shape, color)], 0 for nothing. A pure function of (recipe.seed, step)."""

    def __init__(self, recipe: Recipe, processor):
        self.recipe, self.processor = recipe, processor

    def __len__(self) -> int:
        return self.recipe.vision_steps

    def __getitem__(self, step: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        rng = Random(f"vision/{self.recipe.seed}/{step}")
        images, labels = [], torch.zeros(self.recipe.vision_images, len(world.PLACES), 2, dtype=torch.long)
        for index in range(self.recipe.vision_images):
            scene = world.make_scene(rng, rng.randint(1, len(world.PLACES)), held_out=False)
            images.append(world.render(scene, rng))
            for thing in scene:
                named = world.SHAPES.index(thing.shape) + 1, list(world.COLORS).index(thing.color) + 1
                labels[index, world.PLACES.index(thing.place)] = torch.tensor(named)
        return dict(self.processor.image_processor(images=images, return_tensors="pt")), labels
