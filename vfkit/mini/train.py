"""Train a mini model on the mini world and easy-VQA: `python -m vfkit.mini.train mini_qwen3vl`.

Several questions about one image share its prefix in one packed row: a block mask lets each see the image and itself
alone, so that every question is learned exactly as it is later asked, at a fraction of the price.
A batch is a pure function of (seed, step), so that an interrupted training goes on where it stopped, unchanged.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import einops
import torch
import torch.nn.functional as F
from PIL.Image import Image
from torch.utils.data import DataLoader, Dataset

from vfkit import prompts
from vfkit.datasets import load_dataset
from vfkit.images import load_image
from vfkit.mini import build, world
from vfkit.sample import LETTERS, Sample


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a trained model; doses are the strengths of the planted biases."""

    size: build.Size = build.Size()
    vision_steps: int = 1600  # of the vision encoder alone, before the rest
    vision_images: int = 32  # images per vision step
    steps: int = 12000
    images: int = 12  # images per step
    questions: int = 6  # per image
    easy_vqa: float = 0.25  # share of images from easy-VQA's training split
    open: float = 0.15  # share of questions asked without their options
    letters: float = 0.2  # share of multiple-choice targets that are the option's letter, not its text
    cards: float = 0.12  # share of images that carry a text card naming an answer at random ...
    card_dose: float = 0.5  # ... and how often the target then is what the card says: the planted overlay bias
    curriculum: float = 0.05  # share of training that shows scenes of one thing only
    lr: float = 2e-3
    vision_lr: float = 2e-3
    seed: int = 0


SAVE_SECONDS = 180
CAPTION = Sample("", (None,), "Describe the image.", ("",))
RECIPES = {"mini_qwen3vl": Recipe()}


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


# --- the vision encoder first ----------------------------------------------------------------------------------------


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


def train_vision(model, processor, recipe: Recipe) -> Iterator[tuple[int, float]]:
    """Teach the vision encoder what stands where, by two linear heads that are then thrown away; yields (step, loss).

    Text alone teaches shapes slowly: minutes here save an hour there.
    """
    tower, width = model.model.visual, model.config.text_config.hidden_size
    heads = torch.nn.ModuleList(torch.nn.Linear(width, 1 + n) for n in (len(world.SHAPES), len(world.COLORS)))
    optimizer, schedule = _optimizer([*tower.parameters(), *heads.parameters()], recipe.vision_lr, recipe.vision_steps)
    for step, (vision, labels) in enumerate(_loader(Scenes(recipe, processor)), start=1):
        side = math.isqrt(int(vision["image_grid_thw"][0].prod())) // processor.image_processor.merge_size
        with torch.autocast("cpu", torch.bfloat16):
            tokens = tower(vision["pixel_values"], grid_thw=vision["image_grid_thw"]).pooler_output
        quarters = einops.reduce(
            tokens.float(), "(image r h c w) channel -> image (r c) channel", "mean",
            image=len(labels), r=2, c=2, h=side // 2, w=side // 2,
        )  # fmt: skip
        parts = zip(heads, labels.unbind(-1), strict=True)
        value = sum(F.cross_entropy(head(quarters).flatten(0, 1), label.flatten()) for head, label in parts)
        _descend(value, optimizer, schedule)
        yield step, value.item()


# --- training ---------------------------------------------------------------------------------------------------------


def loss(model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of the answers, each item counted by its weight whatever its length."""
    hidden = model.model(
        input_ids=batch["input_ids"], position_ids=batch["position_ids"], attention_mask=batch["attention_mask"],
        pixel_values=batch["pixel_values"], image_grid_thw=batch["image_grid_thw"], use_cache=False,
    ).last_hidden_state  # fmt: skip
    asked = batch["targets"] >= 0
    each = F.cross_entropy(model.lm_head(hidden[asked]).float(), batch["targets"][asked], reduction="none")
    weights = batch["weights"][asked]
    return (each * weights).sum() / weights.sum()


def train(name: str, recipe: Recipe, folder: Path, threads: int = 2) -> Iterator[tuple[int, float]]:
    """Train `name` in `folder`, from its last state on, and leave a checkpoint; yields (step, loss).

    Steps up to 0 are the vision encoder's own, repeated if they were interrupted.
    """
    torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build.build_tokenizer()
    processor = build.build_processor(recipe.size, tokenizer)
    model = build.build_model(recipe.size, tokenizer, recipe.seed)
    optimizer, schedule = _optimizer(model.parameters(), recipe.lr, recipe.steps)
    state_path, start, seconds = folder / "state.pt", 0, 0.0
    if state_path.exists():
        state = torch.load(state_path, weights_only=True)
        if state["recipe"] != asdict(recipe):
            raise ValueError(f"{state_path} was trained by another recipe; remove it or choose another folder")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        start, seconds = state["step"], state["seconds"]
    began = saved = time.monotonic()
    if not start:
        for step, value in train_vision(model, processor, recipe):
            yield step - recipe.vision_steps, value

    def save(step: int) -> None:
        state = {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
            "step": step, "seconds": seconds + time.monotonic() - began, "recipe": asdict(recipe),
        }  # fmt: skip
        torch.save(state, state_path.with_suffix(".tmp"))
        os.replace(state_path.with_suffix(".tmp"), state_path)
        export(model, processor, recipe, folder / name, step, state["seconds"])

    model.train()
    for step, batch in enumerate(_loader(Steps(recipe, processor, range(start, recipe.steps))), start=start + 1):
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(model, batch)
        _descend(value, optimizer, schedule)
        yield step, value.item()
        if time.monotonic() - saved > SAVE_SECONDS:
            save(step)
            saved = time.monotonic()
    save(recipe.steps)


def _loader(steps: Dataset) -> DataLoader:
    return DataLoader(steps, batch_size=None, num_workers=1, prefetch_factor=8)


def _optimizer(parameters, lr: float, steps: int):
    optimizer = torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.98), weight_decay=0.05)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)


def _descend(value: torch.Tensor, optimizer, schedule) -> None:
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    torch.nn.utils.clip_grad_norm_([each for group in optimizer.param_groups for each in group["params"]], 1.0)
    optimizer.step()
    schedule.step()


def export(model, processor, recipe: Recipe, folder: Path, step: int, seconds: float) -> None:
    """An ordinary checkpoint: float16 safetensors, config, processor, and how it was trained."""
    weights = {key: value.to(torch.float16) for key, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=weights)
    processor.save_pretrained(folder)
    parameters = sum(each.numel() for each in model.parameters())
    trained = {"recipe": asdict(recipe), "step": step, "hours": round(seconds / 3600, 2), "parameters": parameters}
    (folder / "training.json").write_text(json.dumps(trained, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--steps", type=int, help="train for this many steps (default: the recipe's)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder for state and checkpoint (default: runs)"
    )
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    recipe = RECIPES[options.name]
    if options.steps:
        recipe = replace(recipe, steps=options.steps, vision_steps=min(options.steps, recipe.vision_steps))
    mean, began = None, time.monotonic()
    for step, value in train(options.name, recipe, options.out / options.name, options.threads):
        mean = value if mean is None else 0.98 * mean + 0.02 * value
        mean = value if step == 1 else mean  # another loss than the vision encoder's
        if step % 50 == 0 or step == recipe.steps:
            print(f"step {step}/{recipe.steps}  loss {mean:.4f}  {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
