"""The lower limit: the least work of any engine. Inputs are prepared in advance and nothing is read out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vfkit.images import content_hash
from vfkit.readout.conversation import scored_prompt
from vfkit.readout.forward import model_inputs
from vfkit.readout.reader import BATCH_TOKENS, Request


@dataclass(frozen=True)
class Prefill:
    """Ready inputs of the distinct images of many requests, in batches as large as the engine's.

    Each image comes with the text before it and, with `prompt`, with the scored prompt after it: every score needs
    that text, but it is not part of the strict limit of one encode and one prefill per image.
    """

    batches: list[dict[str, Tensor]]

    @classmethod
    def of(cls, vlm, requests: list[Request], prompt: bool) -> "Prefill":
        distinct: dict[tuple, Request] = {
            tuple(map(content_hash, images)): (sample, images) for sample, images in requests
        }
        made = [cls._inputs(vlm, [request]) for request in distinct.values()]
        made = made if prompt else [_cut(vlm, inputs) for inputs in made]
        n = max(1, BATCH_TOKENS // max(inputs["input_ids"].shape[1] for inputs in made))
        return cls([_stack(made[start : start + n]) for start in range(0, len(made), n)])

    @staticmethod
    def _inputs(vlm, requests: list[Request]) -> dict[str, Tensor]:
        placeholder = vlm.adapter.placeholder(vlm.processor)
        asked = [
            (scored_prompt(sample, len(images), vlm.processor, placeholder).messages, images)
            for sample, images in requests
        ]
        return model_inputs(vlm, asked)

    @torch.inference_mode()
    def run(self, vlm) -> None:
        """Run one batched encode and one prefill of all images."""
        for inputs in self.batches:
            if hasattr(vlm.model.model, "rope_deltas"):
                vlm.model.model.rope_deltas = None
            vlm.adapter.backbone(vlm.model)(**inputs, use_cache=False)


def _cut(vlm, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Cut the text after the last image token."""
    last = int((inputs["input_ids"][0] == vlm.adapter.image_token_id(vlm.processor)).nonzero()[-1])
    per_token = {name for name, value in inputs.items() if value.shape == inputs["input_ids"].shape}
    return {name: value[:, : last + 1] if name in per_token else value for name, value in inputs.items()}


def _stack(made: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack single rows into one batch, padded on the right."""
    longest = max(inputs["input_ids"].shape[1] for inputs in made)

    def widen(inputs: dict[str, Tensor], name: str) -> Tensor:
        value = inputs[name]
        per_token = value.shape == inputs["input_ids"].shape
        return torch.nn.functional.pad(value, (0, longest - value.shape[1])) if per_token else value

    return {name: torch.cat([widen(inputs, name) for inputs in made]) for name in made[0]}
