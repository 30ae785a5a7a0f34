"""The slow, obvious way to the numbers of this room: one plain forward pass of the whole conversation for each option.

Every conversation goes through the processor whole, the library finds its own positions and masks, and attention is
`eager`, whose masks and weights are plain tensors. Nothing of the engine's rows, batches or masks is assumed. DeepStack
is left alone: what it adds is told from the states before and after it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from vfkit.inside.layers import hidden, text_layers
from vfkit.readout.conversation import scored_prompt
from vfkit.readout.forward import log_probs
from vfkit.readout.oracle import answered_inputs, asked_inputs
from vfkit.readout.rules import scores as by_rule


class Plain:
    """A sample's question on images, read by plain forward passes.

    Args:
        rule: scoring rule.
    """

    def __init__(self, vlm, sample, images, rule: str):
        self.vlm, self.images, self.rule = vlm, tuple(images), rule
        words = vlm.processor, vlm.adapter.placeholder(vlm.processor), vlm.wording
        self.prompt = scored_prompt(sample, len(images), *words)
        self.asked = asked_inputs(vlm, self.prompt, self.images)
        ids = self.asked["input_ids"][0].tolist()
        image = [i for i, token in enumerate(ids) if token == vlm.adapter.image_token_id(vlm.processor)]
        text = [i for i in range(image[0], len(ids) - 1) if i not in image]
        self.places = {"image": image, "question": text, "answer": [len(ids) - 1]}

    @torch.inference_mode()
    def states(self) -> tuple[list[Tensor], list[Tensor]]:
        """States of the prompt before each layer and before the final norm, and after each layer, [token, channel]."""
        with _plain(self.vlm), _watched(self.vlm) as (before, after):
            self.vlm.model(**self.asked, use_cache=False)
        return [each[0] for each in before], [each[0] for each in after]

    @torch.inference_mode()
    def lens(self) -> list[np.ndarray]:
        """Scores [option] by layer: the state of every scored position through final norm and output projection."""
        norm = self.vlm.adapter.final_norm(self.vlm.model)
        return self._scores(lambda before: [norm(state[0]) for state in before])

    def scores(self) -> np.ndarray:
        """Scores [option] of the model as it is."""
        return self.lens()[-1]

    @torch.inference_mode()
    def patched(self, layer: int, tokens: Sequence[int], donor: "Plain") -> np.ndarray:
        """Scores [option] with the donor's states at some tokens of the prompt before a layer, and what is added to
        its image tokens after later layers."""
        before, after = donor.states()
        image = [token for token in tokens if token in self.places["image"]]
        last: dict[int, Tensor] = {}

        def change(number: int, state: Tensor) -> Tensor:
            state = state.clone()
            if number == layer:
                state[0, tokens] = before[number][tokens]
            elif number > layer and image:
                state[0, image] = last[number - 1][0, image] + (before[number] - after[number - 1])[image]
            return state

        with _changed(self.vlm, change, last):
            return self.scores()

    @torch.inference_mode()
    def knocked_out(self, tokens: Sequence[int], layers: Sequence[int]) -> np.ndarray:
        """Scores [option] with some tokens of the prompt hidden from all others in some layers."""
        hooks = []

        def hide(_, args, inputs):
            mask = inputs["attention_mask"].clone()
            others = [place for place in range(mask.shape[2]) if place not in tokens]
            for token in tokens:
                mask[0, :, others, token] = torch.finfo(mask.dtype).min
            return args, inputs | {"attention_mask": mask}

        for layer in layers:
            hooks.append(text_layers(self.vlm)[layer].register_forward_pre_hook(hide, with_kwargs=True))
        try:
            return self.scores()
        finally:
            for hook in hooks:
                hook.remove()

    @torch.inference_mode()
    def attention(self) -> list[Tensor]:
        """The library's own attention weights of the prompt's last token by layer, [head, token]."""
        with _plain(self.vlm):
            outputs = self.vlm.model(**self.asked, use_cache=False, output_attentions=True)
        return [weights[0, :, -1] for weights in outputs.attentions]

    def _scores(self, posts) -> list[np.ndarray]:
        """Scores [option] by whatever states after the final norm `posts` makes of those before the layers."""
        start = self.asked["input_ids"].shape[1]

        def parts(answer) -> list[tuple[float, float]]:
            inputs = answered_inputs(self.vlm, self.prompt, answer, self.images, self.asked)
            with _plain(self.vlm), _watched(self.vlm) as (before, _):
                self.vlm.model(**inputs, use_cache=False)
            tokens = inputs["input_ids"][0, start:]
            found, middle = [], len(answer.text)
            for post in posts(before):
                logp = log_probs(self.vlm, post[start - 1 : -1])[range(len(tokens)), tokens].double()
                found.append((float(logp[:middle].sum()), float(logp[middle:].sum())))
            return found

        options = [parts(answer) for answer in self.prompt.answers]
        letters = [parts(letter) for letter in self.prompt.letters] or [[(np.nan, 0.0)] * len(options[0])] * len(
            options
        )
        count = [len(answer.text) for answer in self.prompt.answers]
        text, end = (np.array([[part[k] for part in one] for one in options]).T for k in (0, 1))  # [layer, option]
        letter = np.array([[part[0] for part in one] for one in letters]).T
        return [by_rule(self.rule, *each) for each in zip(text, end, [count] * len(text), letter, strict=True)]


@contextmanager
def _plain(vlm) -> Iterator[None]:
    """Eager attention, and nothing left of an earlier call's positions."""
    if hasattr(vlm.model.model, "rope_deltas"):
        vlm.model.model.rope_deltas = None
    kind = vlm.model.config._attn_implementation
    vlm.model.set_attn_implementation("eager")
    try:
        yield
    finally:
        vlm.model.set_attn_implementation(kind)


@contextmanager
def _watched(vlm) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """States [row, token, channel] before each layer and the final norm, and after each layer, of the pass inside."""
    before: list[Tensor] = []
    after: list[Tensor] = []
    hooks = []
    for layer in [*text_layers(vlm), vlm.adapter.final_norm(vlm.model)]:
        hooks.append(
            layer.register_forward_pre_hook(
                lambda _, args, inputs: before.append(hidden(args, inputs)), with_kwargs=True
            )
        )
    for layer in text_layers(vlm):
        hooks.append(
            layer.register_forward_hook(lambda _, args, out: after.append(out[0] if isinstance(out, tuple) else out))
        )
    try:
        yield before, after
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _changed(vlm, change, last: dict[int, Tensor]) -> Iterator[None]:
    """The state [row, token, channel] before layer `number` is what `change(number, state)` makes of it; `last` holds
    the states after the layers of the running pass."""
    hooks = []
    for number, layer in enumerate(text_layers(vlm)):

        def before(_, args, inputs, number=number):
            state = change(number, hidden(args, inputs))
            return ((state, *args[1:]), inputs) if args else (args, inputs | {"hidden_states": state})

        def after(_, args, out, number=number):
            last[number] = out[0] if isinstance(out, tuple) else out

        hooks.append(layer.register_forward_pre_hook(before, with_kwargs=True))
        hooks.append(layer.register_forward_hook(after))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
