"""Attention of one row: weights of the answer position, recomputed from its query and the keys of every layer.

No attention map is made: the weights of one position are taken where the model calls its attention function, after
rotary embedding and under the layer's own mask. They describe where the model reads; they are no cause of what it says.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vfkit.inside.layers import text_layers
from vfkit.readout.batch import Group


@contextmanager
def answer_attention(vlm, groups: Sequence[Group]) -> Iterator[dict[int, list[Tensor]]]:
    """Weights [head, token] of the answer position by layer and row of the last forward pass inside.

    Args:
        groups: of the pass; their rows may be grown inside.

    Raises:
        RuntimeError: the text model's attention is not `sdpa`, the only one that is read here.
    """
    kind = vlm.model.config.get_text_config()._attn_implementation
    if kind != "sdpa":
        raise RuntimeError(f"attention {kind!r} of {vlm.name!r} is not read here; load the model with sdpa")
    numbers = {id(layer.self_attn): number for number, layer in enumerate(text_layers(vlm))}
    weights: dict[int, list[Tensor]] = {}
    own = ALL_ATTENTION_FUNCTIONS[kind]

    def attend(module, query, key, value, attention_mask, **settings):
        if id(module) in numbers:
            weights[numbers[id(module)]] = [
                _row(query, key, attention_mask, index, group.row.last(group.questions[0].context), settings)
                for index, group in enumerate(groups)
            ]
        return own(module, query, key, value, attention_mask, **settings)

    ALL_ATTENTION_FUNCTIONS[kind] = attend
    try:
        yield weights
    finally:
        del ALL_ATTENTION_FUNCTIONS[kind]


def _row(query: Tensor, key: Tensor, mask: Tensor, row: int, place: int, settings: Mapping) -> Tensor:
    """Softmax of one position's scores [head, token], in float32."""
    asked, keys = query[row, :, place].float(), key[row].float()
    keys = keys.repeat_interleave(len(asked) // len(keys), dim=0)
    scaling = settings.get("scaling") or query.shape[-1] ** -0.5
    scores = torch.einsum("hc,htc->ht", asked, keys) * scaling
    if cap := settings.get("softcap"):
        scores = cap * torch.tanh(scores / cap)
    seen = mask[row, 0, place]
    scores = scores.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else scores + seen.float()
    return scores.softmax(dim=-1)


def shares(weights: Float[Tensor, "head token"], places: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Share of the weight on each place, the mean over heads, as `on_<place>`."""
    mean = weights.mean(0).cpu()
    return {f"on_{name}": float(mean[list(tokens)].sum()) for name, tokens in places.items()}


def entropy(weights: Float[Tensor, "head token"]) -> float:
    """Entropy in nats, the mean over heads."""
    return float(torch.special.entr(weights).sum(-1).mean())
