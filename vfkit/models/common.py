"""What most architectures have in common; the functions of an adapter unless its module says otherwise."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn


def image_token_id(processor) -> int:
    """Id of the token that stands, repeated, for an image in the model's input."""
    return processor.image_token_id


def placeholder(processor) -> str:
    """What the chat template writes for one image before the processor widens it."""
    return processor.image_token


def positions(model, inputs: dict) -> tuple[Int[Tensor, "row token"], Int[Tensor, " row"]]:
    """Position ids of right-padded prompts, and per prompt by how much positions then run ahead of the token count."""
    ids = inputs["input_ids"]
    return torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1), ids.new_zeros(len(ids))


def masks(
    model,
    seen: Bool[Tensor, "row query key"],
    queries: Int[Tensor, "row query"],
    keys: Int[Tensor, "row key"],
    ids: Int[Tensor, "row key"] | None = None,
):
    """The attention mask in the form the model takes.

    Args:
        seen: which token sees which on the paths that tokens lie on.
        queries, keys: each token's index on its own path, from the first token on.
        ids: the tokens themselves, where queries and keys are the same; None while answers are decoded.
    """
    return seen[:, None]


def backbone(model) -> nn.Module:
    """The model without its output projection."""
    return model.model


def final_norm(model) -> nn.Module:
    """The norm between the last layer and the output projection."""
    return model.model.language_model.norm


def square(tokens: Tensor) -> Tensor:
    """Tokens of one square view in reading order [token, channel] as a grid [side, side, channel]."""
    side = round(len(tokens) ** 0.5)
    if side**2 != len(tokens):
        raise RuntimeError(f"{len(tokens)} vision tokens do not fill a square; this version of the model is not known")
    return tokens.reshape(side, side, -1)
