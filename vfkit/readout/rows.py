"""One forward pass over a batch of rows: every prompt and answer on every image of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from vfkit.readout.batch import Group
from vfkit.readout.forward import TEXT_INPUTS, log_probs, tap
from vfkit.readout.rules import combine
from vfkit.readout.tree import Row


@dataclass(frozen=True)
class Pass:
    """What a forward pass over rows leaves.

    Args:
        states: by tap, [row, token, channel].
        grids: vision tokens of every image of the batch, in order, each [height, width, channel].
        cache: keys and values of the rows; None unless they are to be decoded from.
        shift: by how much positions run ahead of the token count, per row.
        axes: leading dimensions of the model's position ids.
    """

    states: dict[str, Tensor]
    grids: list[Tensor]
    cache: DynamicCache | None
    shift: Int[Tensor, " row"]
    axes: tuple[int, ...]


def forward_rows(vlm, groups: Sequence[Group], inputs: dict[str, Tensor], decode: bool) -> Pass:
    """Grow the row of every group and read all of them in one pass.

    Args:
        inputs: what the processor made of each group's first question.
        decode: keep a cache from which answers can be generated.

    Raises:
        RuntimeError: the processor's tokens do not end as the rendered prompt does.
    """
    image_token = vlm.adapter.image_token_id(vlm.processor)
    for group, ids, seen in zip(groups, inputs["input_ids"], inputs["attention_mask"], strict=True):
        group.grow(ids[seen.bool()].tolist(), image_token)
    rows = [group.row for group in groups]
    cache = DynamicCache() if decode else None  # without a config no layer drops what has left its window
    positions, shift = vlm.adapter.positions(vlm.model, inputs)
    with tap(vlm) as states:
        outputs = vlm.adapter.backbone(vlm.model)(
            **row_inputs(vlm, rows, positions, shift), **vision_inputs(inputs), cache=cache, use_cache=decode
        )
    grids = vlm.adapter.vision_grids(outputs, inputs, vlm.processor) if groups[0].images else []
    vlm.counters.update(encodes=sum(len(group.images) for group in groups), prefills=len(rows), forwards=1)
    return Pass(states, grids, cache, shift, tuple(positions.shape[:-2]))


def row_inputs(
    vlm, rows: Sequence[Row], positions: Int[Tensor, "*axes row prompt"], shift: Int[Tensor, " row"]
) -> dict[str, Any]:
    """Rows of branching text as the backbone takes them: padded input_ids [row, token], attention_mask in the form the
    architecture has it (bool [row, 1, token, token], or one for each type of layer), position_ids [*axes, row, token].

    The model's own positions hold for the prefix; what branches off counts on from where a prompt of its own would.
    """
    length = max(len(row.tokens) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    seen = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)  # padding sees itself: no empty softmax
    for index, row in enumerate(rows):
        n = len(row.tokens)
        ids[index, :n] = torch.tensor(row.tokens)
        seen[index, :n, :n] = torch.from_numpy(row.mask())
    ids, seen, depths = (each.to(positions.device) for each in (ids, seen, row_depths(rows)))
    whole = (depths + shift[:, None]).repeat(*positions.shape[:-2], 1, 1)
    for index, row in enumerate(rows):
        n_prefix = row.length[0]
        whole[..., index, :n_prefix] = positions[..., index, :n_prefix]
    masks = vlm.adapter.masks(vlm.model, seen, depths, depths, ids)
    return {"input_ids": ids, "attention_mask": masks, "position_ids": whole}


def row_depths(rows: Sequence[Row]) -> Int[Tensor, "row token"]:
    """Each token's index on its own path, padded with zeros."""
    depths = torch.zeros(len(rows), max(len(row.tokens) for row in rows), dtype=torch.long)
    for index, row in enumerate(rows):
        depths[index, : len(row.tokens)] = torch.from_numpy(row.depths())
    return depths


def vision_inputs(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the processor made of the images; rows bring their own text."""
    return {key: value for key, value in inputs.items() if key not in TEXT_INPUTS}


def answer_logps(vlm, groups: Sequence[Group], post: Tensor) -> Float[Tensor, " token"]:
    """Log-probabilities of all tokens of all candidates, group by group, question by question, in their order.

    All the batch's needed states [row, token, channel] meet the output projection together, each once.
    """
    wanted = [
        (index, place, token)
        for index, group in enumerate(groups)
        for question in group.questions
        for place, token in question.steps(group.row)
    ]
    states = {place: i for i, place in enumerate(dict.fromkeys((row, place) for row, place, _ in wanted))}
    where = torch.tensor(list(states), device=post.device)
    logp = log_probs(vlm, post[where[:, 0], where[:, 1]])
    return logp[[states[row, place] for row, place, _ in wanted], [token for _, _, token in wanted]]


def rule_scores(vlm, groups: Sequence[Group], post: Tensor, rule: str) -> list[Float[Tensor, " option"]]:
    """Scores by a rule of the options of every question of the batch, in order, from states [row, token, channel] after
    the final norm; gradients flow through them."""
    left, scores = answer_logps(vlm, groups, post), []
    for asked in (question for group in groups for question in group.questions):
        lengths = list(map(len, asked.candidates))
        own, left = left.split([sum(lengths), len(left) - sum(lengths)])
        tokens = own.split(lengths)
        answers = asked.scored.answers
        text = torch.stack([own[: len(a.text)].sum() for own, a in zip(tokens, answers, strict=False)])
        end = torch.stack([own[len(a.text) :].sum() for own, a in zip(tokens, answers, strict=False)])
        letters = [own.sum() for own in tokens[len(answers) :]]
        letter = torch.stack(letters) if letters else torch.full_like(text, torch.nan)
        scores.append(combine(rule, text, end, text.new_tensor([len(a.text) for a in answers]), letter))
    return scores
