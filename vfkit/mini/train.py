"""Train a mini model on the mini world and easy-VQA: `python -m vfkit.mini.train mini_qwen3vl`.

The state is saved every few minutes and a batch depends on its step alone, so an interrupted training goes on where it
stopped as if it had not.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import einops
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from vfkit.mini import build, world
from vfkit.mini.batches import Scenes, Steps
from vfkit.mini.recipe import RECIPES, Recipe

SAVE_SECONDS = 180

# --- the vision encoder first ----------------------------------------------------------------------------------------


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
