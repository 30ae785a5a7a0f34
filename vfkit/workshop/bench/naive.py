"""The naive protocol, as HI's published program reads: one full forward pass for every number read of an image.

Every option, every context probe and every answer probe sends image and prompt through the whole model again, and a
generated answer takes one more pass to read its states. For four options that is 11 encodes.
The numbers are those of the engine (float32, any padding side), so that only the way to them differs.
"""

from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from vfkit import prompts
from vfkit.readout.forward import model_inputs, tap
from vfkit.readout.greedy import MAX_NEW_TOKENS
from vfkit.sample import Sample


@torch.inference_mode()
def read_naive(vlm, sample: Sample, images: tuple[Image, ...], probes: bool) -> dict[str, Any]:
    """Read scores [option] by the rule `paper` and, with probes, states [channel] by probe and hook point, and
    texts."""
    forms = sample.prompt, prompts.open_form(sample)
    scored, open_ = (prompts.user_turn(prompts.text(sample, form), len(images), sample.question) for form in forms)
    scores = [_score(vlm, scored, option, images) for option in sample.options]
    if not probes:
        return {"scores": scores}
    best = sample.options[max(range(len(scores)), key=scores.__getitem__)]
    spoken = {"open": _generate(vlm, open_, images), "mcq": _generate(vlm, scored, images)}
    return {
        "scores": scores,
        "ctx_open": _context(vlm, open_, images),
        "ctx_mcq": _context(vlm, scored, images),
        "ans_mcq": _answer(vlm, scored, best, images),
        "ans_open": _continued(vlm, open_, spoken["open"], images),
        "ans_mcq_free": _continued(vlm, scored, spoken["mcq"], images),
        "texts": {
            name: vlm.processor.tokenizer.decode(ids, skip_special_tokens=True).strip() for name, ids in spoken.items()
        },
    }


def _score(vlm, messages: list[dict], answer: str, images: tuple[Image, ...]) -> float:
    """Sum the log-probabilities of the tokens of an answer, end of turn included."""
    start = model_inputs(vlm, [(messages, images)])["input_ids"].shape[1]
    inputs = model_inputs(vlm, [(prompts.answered(messages, answer), images)], answered=True)
    logits = _whole(vlm, inputs).logits[0, start - 1 : -1].float()
    return float(logits.log_softmax(-1).gather(1, inputs["input_ids"][0, start:, None]).double().sum())


def _context(vlm, messages: list[dict], images: tuple[Image, ...]) -> dict[str, Tensor]:
    """Read the states at the last context token."""
    with tap(vlm) as states:
        _whole(vlm, model_inputs(vlm, [(messages, images)]))
    return {name: state[0, -1] for name, state in states.items()}


def _answer(vlm, messages: list[dict], answer: str, images: tuple[Image, ...]) -> dict[str, Tensor]:
    """Average the states over the text tokens of a given answer."""
    start = model_inputs(vlm, [(messages, images)])["input_ids"].shape[1]
    n = len(vlm.processor.tokenizer(answer, add_special_tokens=False)["input_ids"])
    with tap(vlm) as states:
        _whole(vlm, model_inputs(vlm, [(prompts.answered(messages, answer), images)], answered=True))
    return {name: state[0, start : start + n].float().mean(0) for name, state in states.items()}


def _generate(vlm, messages: list[dict], images: tuple[Image, ...]) -> Tensor:
    """Generate the greedy answer by the library; returns its tokens."""
    inputs = model_inputs(vlm, [(messages, images)])
    _forget(vlm)
    whole = vlm.model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
    return whole[0, inputs["input_ids"].shape[1] :]


def _continued(vlm, messages: list[dict], said: Tensor, images: tuple[Image, ...]) -> dict[str, Tensor]:
    """Average the states over the tokens of a generated answer, in one more pass."""
    inputs = model_inputs(vlm, [(messages, images)])
    start, new = inputs["input_ids"].shape[1], said[None]
    added = {"input_ids": new, "attention_mask": torch.ones_like(new)}
    added |= {name: torch.zeros_like(new) for name in ("mm_token_type_ids", "token_type_ids") if name in inputs}
    with tap(vlm) as states:
        _whole(vlm, inputs | {name: torch.cat([inputs[name], value], dim=1) for name, value in added.items()})
    return {name: state[0, start:].float().mean(0) for name, state in states.items()}


def _whole(vlm, inputs: dict[str, Tensor]):
    _forget(vlm)
    return vlm.model(**inputs, use_cache=False)


def _forget(vlm) -> None:
    """Drop the positions that Qwen models keep from the last call."""
    if hasattr(vlm.model.model, "rope_deltas"):
        vlm.model.model.rope_deltas = None
