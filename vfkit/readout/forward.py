"""What engine and oracle share: tensors from conversations, hook points around the final norm, log-probabilities."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor

from vfkit.judge.answers import REASONING
from vfkit.readout.conversation import special_tokens

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")  # one value per token
Conversation = tuple[list[dict], tuple[Image | Tensor, ...]]
"""A conversation and its images; as tensors, float [3, height, width] in [0, 255]."""


@torch.inference_mode(False)  # processors keep tensors for later calls, which may want gradients
def model_inputs(vlm, conversations: Sequence[Conversation], answered: bool = False) -> dict[str, Tensor]:
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


def answer_text(vlm, ids: Sequence[int], opened: str = "") -> str:
    """The text of a generated answer, without special tokens; tags of a reasoning stay, and `opened`, the tag that the
    prompt holds, stands before it, so that a reasoning that was cut off is known as one."""
    tokenizer, special = vlm.processor.tokenizer, special_tokens(vlm.processor)
    tags = {token for token in set(ids) & special.keys() if re.fullmatch(rf"</?{REASONING}>", special[token])}
    kept = [token for token in ids if token in tags or token not in special]
    text = tokenizer.decode(kept) if tags else tokenizer.decode(ids, skip_special_tokens=True)
    return opened + text.strip()
