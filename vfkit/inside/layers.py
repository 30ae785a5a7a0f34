"""Hooks on the layers of the text model: states before each layer, patches of states, tokens hidden by the mask.

Layer `l` counts from 0. Its state is the residual stream before it; that of layer `L` is the one before the final norm.
DeepStack (Qwen3-VL) adds image features to the image tokens after the first layers: the state before the next layer
includes them, and the state after the layer does not yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class States:
    """The residual stream of one row.

    Args:
        before: for each layer, and last before the final norm, [token, channel].
        after: of the layers after which DeepStack adds, the state before its addition.
        added: what DeepStack adds there, [image token, channel].
        image: places of the image tokens in the row.
    """

    before: list[Float[Tensor, "token channel"]]
    after: list[Float[Tensor, "token channel"]]
    added: list[Float[Tensor, "image channel"]]
    image: Int[Tensor, " image"]


@dataclass(frozen=True)
class Patch:
    """The states of some tokens before a layer are replaced by those of another row; with those of image tokens, what
    DeepStack adds to them from this layer on."""

    layer: int
    tokens: Sequence[int]
    states: States


@dataclass(frozen=True)
class Knockout:
    """Some tokens are hidden, in some layers, from every token that is not one of them."""

    tokens: Sequence[int]
    layers: range


Edit = Patch | Knockout | None


@dataclass
class Tapped:
    """States of all rows of a forward pass, as in `States` but [row, token, channel]; `added` is [image token of any
    row, channel]."""

    before: dict[int, Tensor] = field(default_factory=dict)
    after: dict[int, Tensor] = field(default_factory=dict)
    added: list[Tensor] = field(default_factory=list)
    image: Tensor | None = None

    def row(self, index: int, n: int, image: Sequence[int]) -> States:
        """The states of one row of `n` tokens, whose image tokens are `image`."""
        added = self.added
        if self.image is not None:
            start = int(self.image[:index].sum())
            added = [each[start : start + len(image)] for each in added]
        before, after = ([each[layer][index, :n] for layer in sorted(each)] for each in (self.before, self.after))
        return States(before, after[: len(added)], added, torch.tensor(image, dtype=torch.long))


def text_model(vlm) -> Any:
    """The text model without its output projection."""
    return vlm.adapter.backbone(vlm.model).language_model


def text_layers(vlm) -> nn.ModuleList:
    """The layers of the text model."""
    return text_model(vlm).layers


@contextmanager
def tapped(vlm) -> Iterator[Tapped]:
    """States of the last forward pass inside, on the model's device."""
    taken, hooks = Tapped(), []

    def before(number: int, _, args, inputs) -> None:
        taken.before[number] = hidden(args, inputs).to(vlm.device)

    def after(number: int, _, args, out) -> None:
        taken.after[number] = (out[0] if isinstance(out, tuple) else out).to(vlm.device)

    def features(_, args, inputs) -> None:
        taken.added = [each.to(vlm.device) for each in inputs.get("deepstack_visual_embeds") or ()]
        taken.image = inputs.get("visual_pos_masks") if taken.added else None

    layers = text_layers(vlm)
    for number, layer in enumerate(layers):
        hooks.append(layer.register_forward_pre_hook(partial(before, number), with_kwargs=True))
        hooks.append(layer.register_forward_hook(partial(after, number)))
    last = vlm.adapter.final_norm(vlm.model)
    hooks.append(last.register_forward_pre_hook(partial(before, len(layers)), with_kwargs=True))
    hooks.append(text_model(vlm).register_forward_pre_hook(features, with_kwargs=True))
    try:
        yield taken
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def edited(vlm, edits: Sequence[Edit]) -> Iterator[None]:
    """In every forward pass inside, row `i` is changed by `edits[i]`."""
    hooks = []
    patches = {row: edit for row, edit in enumerate(edits) if isinstance(edit, Patch)}
    hidings = {row: edit for row, edit in enumerate(edits) if isinstance(edit, Knockout)}
    for number, layer in enumerate(text_layers(vlm)):
        here = {row: edit for row, edit in patches.items() if edit.layer == number}
        hide = {row: edit for row, edit in hidings.items() if number in edit.layers}
        if here:
            hooks.append(layer.register_forward_pre_hook(partial(_patch, here), with_kwargs=True))
        if hide:
            hooks.append(layer.register_forward_pre_hook(partial(_hide, hide), with_kwargs=True))
    if patches:
        hooks.append(text_model(vlm).register_forward_pre_hook(partial(_patch_features, patches), with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def hidden(args: tuple, inputs: dict) -> Tensor:
    """The state that a layer or norm is given, whichever way it is passed."""
    return args[0] if args else inputs["hidden_states"]


def _patch(patches: Mapping[int, Patch], _, args, inputs):
    state = hidden(args, inputs).clone()
    for row, patch in patches.items():
        tokens = torch.as_tensor(patch.tokens, device=state.device)
        state[row, tokens] = patch.states.before[patch.layer].to(state.device)[tokens]
    return ((state, *args[1:]), inputs) if args else (args, inputs | {"hidden_states": state})


def _patch_features(patches: Mapping[int, Patch], _, args, inputs):
    """Replace what DeepStack adds to patched image tokens after the patch's layer and later ones."""
    features = inputs.get("deepstack_visual_embeds")
    if not features:
        return None
    features, image = [each.clone() for each in features], inputs["visual_pos_masks"]
    place = image.flatten().cumsum(0).reshape(image.shape) - 1  # of each image token among those of all rows
    for row, patch in patches.items():
        own = patch.states.image.tolist()
        shared = [(token, own.index(token)) for token in patch.tokens if token in own]
        if not shared:
            continue
        tokens, source = (torch.tensor(each) for each in zip(*shared, strict=True))
        for layer in range(patch.layer, len(features)):
            given = patch.states.added[layer]
            features[layer][place[row, tokens.to(image.device)]] = given[source.to(given.device)].to(features[layer])
    return args, inputs | {"deepstack_visual_embeds": features}


def _hide(knockouts: Mapping[int, Knockout], _, args, inputs):
    mask = inputs["attention_mask"].clone()
    for row, knockout in knockouts.items():
        tokens = torch.as_tensor(knockout.tokens, device=mask.device)
        hide = torch.zeros(mask.shape[-2:], dtype=torch.bool, device=mask.device)
        hide[:, tokens] = True
        hide[tokens] = False
        none = False if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
        mask[row] = mask[row].masked_fill(hide, none)
    return args, inputs | {"attention_mask": mask}
