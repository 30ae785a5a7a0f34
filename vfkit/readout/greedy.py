"""The model's own greedy answers, decoded side by side from the cache of the engine's forward pass."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from vfkit.readout.forward import answer_text, end_tokens, log_probs, row_depths, tap
from vfkit.readout.readout import TAPS
from vfkit.readout.tree import Row

MAX_NEW_TOKENS = 32
"""Longest greedy answer, in tokens (HI A.8), where a study says nothing else."""

Path = tuple[int, int]  # (row, node): the prompt that ends there


@dataclass(frozen=True)
class Spoken:
    """A greedy answer, its tokens, end-of-turn included, and the mean state at them, by tap: float32 [channel]."""

    text: str
    ids: tuple[int, ...]
    states: dict[str, np.ndarray]


def greedy(
    vlm,
    rows: Sequence[Row],
    paths: list[Path],
    post: Float[Tensor, "row token channel"],
    cache: DynamicCache,
    shift: Int[Tensor, " row"],
    axes: tuple[int, ...],
) -> dict[Path, Spoken]:
    """Answers to the prompts that end at `paths`, from the cache of the rows; the cache grows and is then spent.

    Every step feeds one token per path, a row's paths side by side. A token sees its path and its own answer so far.

    Args:
        post: post-norm states of the rows [row, token, channel].
        shift: by how much positions run ahead of the token count, per row.
        axes: leading dimensions of the model's position ids.
    """
    device = vlm.device
    slots = _slots(paths)
    width = 1 + max(slot for _, slot in slots)
    at = tuple(torch.tensor(each, device=device) for each in zip(*slots, strict=True))  # (row, slot) of each path
    seen = torch.zeros(len(rows), width, post.shape[1], dtype=torch.bool)
    depth = torch.zeros(len(rows), width, dtype=torch.long)
    for (index, node), place in zip(paths, slots, strict=True):
        seen[place][: len(rows[index].tokens)] = torch.from_numpy(rows[index].path(node))
        depth[place] = rows[index].offset[node] + rows[index].length[node]
    seen, depth, depths = (each.to(device) for each in (seen, depth, row_depths(rows)))
    own = torch.eye(width, dtype=torch.bool, device=device).expand(len(rows), width, width)

    ends = end_tokens(vlm)
    said: list[list[int]] = [[] for _ in paths]
    alive = torch.ones(len(paths), dtype=torch.bool, device=device)
    sums = dict.fromkeys(TAPS, 0.0)
    token = log_probs(vlm, torch.stack([post[index, rows[index].last(node)] for index, node in paths])).argmax(1)
    for _ in range(vlm.max_new_tokens):
        fed = torch.zeros(len(rows), width, dtype=torch.long, device=device)
        fed[at] = token.to(device)
        seen, depths = torch.cat([seen, own], dim=2), torch.cat([depths, depth], dim=1)
        with tap(vlm) as states:
            vlm.adapter.backbone(vlm.model)(
                input_ids=fed, attention_mask=vlm.adapter.masks(vlm.model, seen, depth, depths),
                position_ids=(depth + shift[:, None]).expand(*axes, -1, -1), cache=cache, use_cache=True,
            )  # fmt: skip
        depth = depth + 1
        sums = {name: sums[name] + states[name][at].float() * alive[:, None] for name in TAPS}
        for index in alive.nonzero()[:, 0].tolist():
            said[index].append(int(token[index]))
            alive[index] = said[index][-1] not in ends
        if not alive.any():
            break
        token = log_probs(vlm, states["post_norm"][at]).argmax(1)
    means = {
        name: (total / torch.tensor([[len(ids)] for ids in said], device=device)).cpu() for name, total in sums.items()
    }
    return {
        path: Spoken(answer_text(vlm, ids), tuple(ids), {name: mean[index].numpy() for name, mean in means.items()})
        for index, (path, ids) in enumerate(zip(paths, said, strict=True))
    }


def _slots(paths: list[Path]) -> list[tuple[int, int]]:
    """(row, slot) of each path: paths of one row take slots 0, 1, ..."""
    taken: Counter = Counter()
    slots = []
    for row, _ in paths:
        slots.append((row, taken[row]))
        taken[row] += 1
    return slots
