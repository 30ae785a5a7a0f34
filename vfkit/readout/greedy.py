"""The model's own greedy answers, decoded side by side from the cache of the engine's forward pass."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from vfkit.readout.conversation import turn_end
from vfkit.readout.forward import answer_text, log_probs, tap
from vfkit.readout.readout import TAPS
from vfkit.readout.rows import Pass, row_depths
from vfkit.readout.tree import Row

MAX_NEW_TOKENS = 32
"""Longest generated answer by default, in tokens (HI A.8)."""

Path = tuple[int, int]  # (row, node): the prompt that ends there


@dataclass(frozen=True)
class Generated:
    """A generated answer: its text, its tokens, end of turn included, and the mean state at them by tap, float32
    [channel]."""

    text: str
    ids: tuple[int, ...]
    states: dict[str, np.ndarray]


def greedy(vlm, rows: Sequence[Row], paths: Sequence[Path], read: Pass) -> dict[Path, Generated]:
    """Answers to the prompts that end at `paths`, from the cache of the rows' pass, which is then used up.

    Every step feeds one token per path, a row's paths side by side. A token sees its path and its own answer so far.
    """
    device, post = vlm.device, read.states["post_norm"]
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
    alive = [True] * len(paths)
    sums: dict[str, Any] = dict.fromkeys(TAPS, 0.0)
    token = log_probs(vlm, torch.stack([post[index, rows[index].last(node)] for index, node in paths])).argmax(1)
    for _ in range(vlm.max_new_tokens):
        fed = torch.zeros(len(rows), width, dtype=torch.long, device=device)
        fed[at] = token.to(device)
        vlm.counters["forwards"] += 1
        seen, depths = torch.cat([seen, own], dim=2), torch.cat([depths, depth], dim=1)
        with tap(vlm) as states:
            vlm.adapter.backbone(vlm.model)(
                input_ids=fed, attention_mask=vlm.adapter.masks(vlm.model, seen, depth, depths),
                position_ids=(depth + read.shift[:, None]).expand(*read.axes, -1, -1), cache=read.cache, use_cache=True,
            )  # fmt: skip
        depth = depth + 1
        counted = torch.tensor(alive, device=device)[:, None]
        sums = {name: sums[name] + states[name][at].float() * counted for name in TAPS}
        for index, next_token in enumerate(token.tolist()):
            if alive[index]:
                said[index].append(next_token)
                alive[index] = next_token not in ends
        if not any(alive):
            break
        token = log_probs(vlm, states["post_norm"][at]).argmax(1)
    means = {
        name: (total / torch.tensor([[len(ids)] for ids in said], device=device)).cpu() for name, total in sums.items()
    }
    return {
        path: Generated(answer_text(vlm, ids), tuple(ids), {name: mean[index].numpy() for name, mean in means.items()})
        for index, (path, ids) in enumerate(zip(paths, said, strict=True))
    }


def _slots(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """(row, slot) of each path: paths of one row take slots 0, 1, ..."""
    taken: Counter = Counter()
    slots = []
    for row, _ in paths:
        slots.append((row, taken[row]))
        taken[row] += 1
    return slots


def end_tokens(vlm) -> set[int]:
    """Tokens that end a generated answer: those of the generation config, of the config, of the tokenizer, and the one
    that closes a turn in the rendered conversation. A fine-tune may name any of them wrongly."""
    config, processor = vlm.model.config, vlm.processor
    named = [getattr(each, "eos_token_id", None) for each in (vlm.model.generation_config, config)]
    named += [getattr(config.get_text_config(), "eos_token_id", None), processor.tokenizer.eos_token_id]
    named.append(turn_end(processor, processor.chat_template))
    ends = [token for each in named for token in (each if isinstance(each, list) else [each])]
    return {token for token in ends if token is not None}
