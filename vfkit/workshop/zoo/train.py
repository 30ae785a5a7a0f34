"""Train a mini model on the mini world and easy-VQA: `python -m vfkit.mini.train mini_qwen3vl`.

The state is saved every few minutes and a batch depends only on its step, so an interrupted training resumes and ends
as an uninterrupted one.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import einops
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from vfkit.mini import world
from vfkit.models import load_model
from vfkit.workshop.zoo import build
from vfkit.workshop.zoo.batches import CARDS, SHOWN, Scenes, Steps
from vfkit.workshop.zoo.recipe import RECIPES, Recipe

SAVE_SECONDS = 180

# --- the vision encoder first ----------------------------------------------------------------------------------------


def train_vision(vlm, recipe: Recipe) -> Iterator[tuple[int, float]]:
    """Train the vision encoder on what is where and what cards say, by linear heads that are then discarded; yields
    (step, loss).

    Learning shapes from text is slow: minutes here save an hour of training.
    """
    width = vlm.model.config.get_text_config().hidden_size
    sizes = [1 + len(values) for values in (*SHOWN * len(world.PLACES), CARDS)]
    heads = torch.nn.ModuleList(torch.nn.Linear(width, n) for n in (*sizes[: len(SHOWN)], sizes[-1]))
    where = torch.nn.Linear(width, len(world.PLACES))  # else the tokens need not say what stands where
    outside = [*heads.parameters(), *where.parameters()]
    descent = Descent([*build.vision_parameters(vlm.model), *outside], outside, recipe.vision_lr, recipe.vision_steps)
    for step, (vision, labels) in enumerate(_loader(Scenes(recipe, vlm)), start=1):
        with torch.autocast("cpu", torch.bfloat16):
            tokens = build.vision_tokens(vlm, vision)
        places = einops.reduce(
            tokens.float(), "image (r h) (c w) channel -> image (r c) channel", "mean", r=2, c=2
        ).unsqueeze(2)  # fmt: skip
        value = F.cross_entropy(heads[-1](tokens.float().mean((1, 2))), labels[:, -1])
        for index, head in enumerate(heads[:-1]):
            named = labels[:, index : -1 : len(SHOWN)]  # [image, place]
            value = value + F.cross_entropy(head(places).flatten(0, 2), named.flatten())
        corners = torch.arange(len(world.PLACES)).repeat(len(labels))
        value = value + F.cross_entropy(where(places).flatten(0, 2), corners)
        descent.step(value)
        yield step, value.item()


# --- training ---------------------------------------------------------------------------------------------------------


def loss(vlm, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the cross-entropy of the answers, each item counted by its weight, not its length."""
    inputs = {key: value for key, value in batch.items() if key not in ("targets", "weights")}
    inputs["attention_mask"] = _additive(inputs["attention_mask"])
    hidden = vlm.adapter.backbone(vlm.model)(**inputs, use_cache=False).last_hidden_state
    asked = batch["targets"] >= 0
    logits = vlm.model.get_output_embeddings()(hidden[asked]).float()
    each = F.cross_entropy(logits, batch["targets"][asked], reduction="none")
    weights = batch["weights"][asked]
    return (each * weights).sum() / weights.sum()


def _additive(mask):
    """Convert a mask (or one per kind of layer) for eager attention: 0 where a token attends, else the lowest
    number."""
    if isinstance(mask, dict):
        return {kind: _additive(each) for kind, each in mask.items()}
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


def train(name: str, recipe: Recipe, folder: Path, threads: int = 2) -> Iterator[tuple[int, float]]:
    """Train `name` in `folder`, from its last saved state, and save a checkpoint; yields (step, loss).

    Steps up to 0 are those of the vision encoder, repeated if they were interrupted.
    """
    torch.set_num_threads(threads)
    folder.mkdir(parents=True, exist_ok=True)
    vlm = build.build(recipe.family, recipe.size, recipe.seed)
    model = vlm.model
    model.set_attn_implementation("eager")  # on a CPU its backward pass is the fastest
    if recipe.start:
        build.grow(vlm, load_model(recipe.start))
    embedding = model.get_input_embeddings().parameters()
    descent = Descent(model.parameters(), embedding, recipe.lr, recipe.steps)
    state_path, start, seconds = folder / "state.pt", 0, 0.0
    if state_path.exists():
        state = torch.load(state_path, weights_only=True)
        if state["recipe"] != asdict(recipe):
            raise ValueError(f"{state_path} was trained by another recipe; remove it or choose another folder")
        model.load_state_dict(state["model"])
        descent.load_state_dict(state["descent"])
        start, seconds = state["step"], state["seconds"]
    began = saved = time.monotonic()
    if not start and recipe.vision_steps:
        for step, value in train_vision(vlm, recipe):
            yield step - recipe.vision_steps, value

    def save(step: int) -> None:
        state: dict[str, Any] = {
            "model": model.state_dict(), "descent": descent.state_dict(),
            "step": step, "seconds": seconds + time.monotonic() - began, "recipe": asdict(recipe),
        }  # fmt: skip
        torch.save(state, state_path.with_suffix(".tmp"))
        os.replace(state_path.with_suffix(".tmp"), state_path)
        export(model, vlm.processor, recipe, folder / name, step, state["seconds"])

    model.train()
    for step, batch in enumerate(_loader(Steps(recipe, vlm, range(start, recipe.steps))), start=start + 1):
        with torch.autocast("cpu", torch.bfloat16):
            answers_loss = loss(vlm, batch)
        descent.step(answers_loss)
        yield step, answers_loss.item()
        if time.monotonic() - saved > SAVE_SECONDS:
            save(step)
            saved = time.monotonic()
    save(recipe.steps)


def _loader(steps: Dataset) -> DataLoader:
    return DataLoader(steps, batch_size=None)  # a separate process would take time from the computing threads


class Descent:
    """Muon for the inner matrices, AdamW for all other parameters, both on a one-cycle schedule; Muon needs half the
    steps of AdamW for matrices."""

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], outside: Iterable[torch.nn.Parameter], lr: float, steps
    ):
        self.parameters, apart = list(parameters), {id(each) for each in outside}
        inside = [each for each in self.parameters if each.ndim == 2 and id(each) not in apart]
        rest = [each for each in self.parameters if each.ndim != 2 or id(each) in apart]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(inside, lr=lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.98), weight_decay=0.05),
        ]
        self.schedules = [
            torch.optim.lr_scheduler.OneCycleLR(each, lr, total_steps=steps, pct_start=0.1, cycle_momentum=False)
            for each in self.optimizers
        ]

    def step(self, value: torch.Tensor) -> None:
        for each in self.optimizers:
            each.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for part in self._parts():
            part.step()

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self._parts()]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self._parts(), states, strict=True):
            part.load_state_dict(state)

    def _parts(self) -> list[Any]:
        return [*self.optimizers, *self.schedules]


def export(model, processor, recipe: Recipe, folder: Path, step: int, seconds: float) -> None:
    """Write an ordinary checkpoint: float16 safetensors, config, processor, and how it was trained."""
    weights = {key: value.to(torch.float16) for key, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=weights)
    processor.save_pretrained(folder)
    parameters = sum(each.numel() for each in model.parameters())
    trained = {"recipe": asdict(recipe), "step": step, "hours": round(seconds / 3600, 2), "parameters": parameters}
    (folder / "training.json").write_text(json.dumps(trained, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m vfkit.mini.train", description=__doc__.splitlines()[0])
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
