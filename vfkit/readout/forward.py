"""What engine and oracle share: tensors from conversations, taps around the final norm, float32 log-probabilities."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL.Image import Image
from torch import Tensor

from vfkit.readout.tree import Row

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")  # one value per token
Conversation = tuple[list[dict], tuple[Image | Tensor, ...]]
"""A conversation and its images; as tensors, float [3, height, width] in [0, 255]."""


@torch.inference_mode(False)  # processors keep tensors for later calls, which may want gradients
def model_inputs(vlm, conversations: list[Conversation], answered: bool = False) -> dict[str, Tensor]:
    """Conversations and their images as tensors on the model's device: one call of its processor, right-padded."""
    filled = [_with_images(messages, images) for messages, images in conversations]
    inputs = vlm.processor.apply_chat_template(
        filled, tokenize=True, add_generation_prompt=not answered, return_dict=True, return_tensors="pt",
        processor_kwargs={"padding": True, "padding_side": "right"},
    )  # fmt: skip
    tensors = {key: value.to(vlm.device) for key, value in inputs.items() if isinstance(value, Tensor)}
    return {key: value.to(vlm.dtype) if value.is_floating_point() else value for key, value in tensors.items()}


def _with_images(messages: list[dict], images: tuple[Image | Tensor, ...]) -> list[dict]:
    left = iter(images)

    def filled(part: dict) -> dict:
        return {**part, "image": next(left)} if part["type"] == "image" else part

    def content(message: dict) -> str | list[dict]:
        given = message["content"]
        return given if isinstance(given, str) else [filled(part) for part in given]

    return [{**message, "content": content(message)} for message in messages]


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


@contextmanager
def tap(vlm) -> Iterator[dict[str, Tensor]]:
    """The states [row, token, channel] before and after the final norm of the last forward pass inside (HI A.8).

    A hook, because library versions differ in which of the two `hidden_states[-1]` is.
    """
    taken: dict[str, Tensor] = {}

    def take(_, given, out) -> None:  # with the weights on several devices, the last layer's may not be the first's
        taken.update(pre_norm=given[0].to(vlm.device), post_norm=out.to(vlm.device))

    hook = vlm.adapter.final_norm(vlm.model).register_forward_hook(take)
    try:
        yield taken
    finally:
        hook.remove()


def log_probs(vlm, states: Float[Tensor, "state channel"], step: int = 16384) -> Float[Tensor, "state token"]:
    """Next-token log-probabilities of post-norm states, in float32 at least whatever the model's type: in bfloat16
    logits near 20 move in steps of 0.125, and near-ties would become ties."""
    head = vlm.model.get_output_embeddings()
    kind = torch.promote_types(states.dtype, torch.float32)
    states = states.to(head.weight.device, kind)
    logits = torch.cat([states @ rows.to(kind).T for rows in head.weight.split(step)], dim=1)
    if getattr(head, "bias", None) is not None:
        logits = logits + head.bias.to(kind)
    return logits.log_softmax(dim=1)


def end_tokens(vlm) -> set[int]:
    """Tokens that end an answer of the model's own."""
    ends = vlm.model.generation_config.eos_token_id
    return set(ends if isinstance(ends, list) else [ends])


def answer_text(vlm, ids: list[int]) -> str:
    return vlm.processor.tokenizer.decode(ids, skip_special_tokens=True).strip()
