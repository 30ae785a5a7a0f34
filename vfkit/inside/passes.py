"""The engine's forward pass with the layers open: states and margins by layer, and scores of rows that are edited."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vfkit.inside.attention import answer_attention
from vfkit.inside.layers import Edit, States, edited, tapped
from vfkit.inside.scene import Scene, places, token_boxes
from vfkit.readout.batch import Group
from vfkit.readout.forward import model_inputs
from vfkit.readout.rows import forward_rows, rule_scores


@dataclass
class Reading:
    """What a forward pass leaves of one scene.

    Args:
        places: tokens of the row by place.
        boxes: of each image, the part that each of its tokens shows.
        grids: of each image, height and width of its vision tokens.
        scores: of the options after each layer by the study's rule: [layer + 1, option], or [1, option] without lens.
        attention: weights of the answer position by layer, [head, token]; empty unless asked for.
    """

    scene: Scene
    places: dict[str, list[int]]
    boxes: list[Tensor]
    grids: list[tuple[int, int]]
    states: States
    scores: np.ndarray
    attention: list[Tensor] = field(default_factory=list)

    def keeps_grid(self, other: "Reading") -> bool:
        """Whether image tokens of both show the same places, one by one: equal grids and, where images are cut into
        tiles, equal sizes."""
        sizes = [[image.size for image in each.scene.images] for each in (self, other)]
        counts = [[len(box) for box in each.boxes] for each in (self, other)]
        whole = counts[0] == [height * width for height, width in self.grids]
        return self.grids == other.grids and counts[0] == counts[1] and (whole or sizes[0] == sizes[1])


@torch.inference_mode()
def read_scenes(
    vlm, scenes: Sequence[Scene], rule: str, lens: bool = True, attention: bool = False, batch_tokens: int = 8192
) -> list[Reading]:
    """Read scenes with their states; `lens` also scores the options from the state before every layer."""
    readings: list[Reading] = []
    for batch in batches(scenes, batch_tokens):
        groups = [scene.group() for scene in batch]
        inputs = model_inputs(vlm, [(scene.question.scored.messages, scene.images) for scene in batch])
        watch: Any = answer_attention(vlm, groups) if attention else nullcontext({})
        with tapped(vlm) as taken, watch as weights:
            done = forward_rows(vlm, groups, inputs, decode=False)
        posts = [done.states["post_norm"]]
        if lens:
            norm = vlm.adapter.final_norm(vlm.model)
            device = next(norm.parameters()).device
            posts = [norm(taken.before[layer].to(device)).to(vlm.device) for layer in sorted(taken.before)]
        scores = [[each.double().cpu().numpy() for each in rule_scores(vlm, groups, post, rule)] for post in posts]
        grids = iter([(int(grid.shape[0]), int(grid.shape[1])) for grid in done.grids])
        image_token = vlm.adapter.image_token_id(vlm.processor)
        for index, (scene, group) in enumerate(zip(batch, groups, strict=True)):
            shapes, where = [next(grids) for _ in scene.images], places(group, image_token)
            states = taken.row(index, len(group.row.tokens), where["image"])
            own = [weights[layer][index] for layer in sorted(weights)]
            of_layers = np.array([each[index] for each in scores])
            boxes = token_boxes(vlm, scene.images, shapes)
            readings.append(Reading(scene, where, boxes, shapes, states, of_layers, own))
    return readings


@torch.inference_mode()
def edited_scores(vlm, scene: Scene, edits: Sequence[Edit], rule: str, batch_tokens: int = 8192) -> np.ndarray:
    """Scores [edit, option] of a scene by the rule, under each edit; None edits nothing.

    Every edit is a row of its own in a batch; after an out-of-memory error batches are half as large.
    """
    inputs = model_inputs(vlm, [(scene.question.scored.messages, scene.images)])
    scores: list[np.ndarray] = []
    step = max(1, batch_tokens // scene.n_tokens)
    while len(scores) < len(edits):
        batch = edits[len(scores) : len(scores) + step]
        try:
            scores += _scored(vlm, scene, batch, inputs, rule)
        except torch.OutOfMemoryError:
            if step == 1:
                raise
            step = max(1, step // 2)
            warnings.warn("out of memory: batches of edited rows are half as large from here on", stacklevel=2)
    return np.array(scores)


def _scored(vlm, scene: Scene, edits: Sequence[Edit], inputs: dict[str, Tensor], rule: str) -> list[np.ndarray]:
    groups: list[Group] = [scene.group() for _ in edits]
    with edited(vlm, edits):
        done = forward_rows(vlm, groups, {key: torch.cat([value] * len(edits)) for key, value in inputs.items()}, False)
    return [each.double().cpu().numpy() for each in rule_scores(vlm, groups, done.states["post_norm"], rule)]


def batches(scenes: Sequence[Scene], batch_tokens: int) -> Iterator[list[Scene]]:
    """Runs of scenes, in order, whose padded rows fill a batch."""
    batch: list[Scene] = []
    for scene in scenes:
        longest = max([scene.n_tokens, *(each.n_tokens for each in batch)])
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(scene)
    if batch:
        yield batch
