"""Option scores as functions of pixels that gradients flow through: the engine's own rows, read without its shortcuts.

What is scored is always the 8-bit image, through the processor's ordinary path, so the scores are the engine's. The
gradient is that of the same processor fed with floats: it differs from what it stands for by rounding alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from vfkit.readout import engine
from vfkit.readout.conversation import Prompt, scored_prompt
from vfkit.readout.forward import model_inputs
from vfkit.readout.rules import combine
from vfkit.sample import Sample

Planes = tuple[Tensor, ...]
"""A sample's images, each float [3, height, width] in [0, 1]."""


class NotDifferentiable(RuntimeError):
    """The model's processor passes no gradient to the pixels."""


@dataclass(frozen=True)
class Question:
    """A sample's scored prompt, rendered once for all steps, and the tokens that its row takes."""

    sample: Sample
    prompt: Prompt
    tokens: int


def question(vlm, sample: Sample, images: Sequence[Image.Image]) -> Question:
    """Raises ValueError where the processor or its chat template refuses the sample."""
    prompt = scored_prompt(sample, len(images), vlm.processor, vlm.adapter.placeholder(vlm.processor))
    tokens = sum(vlm.adapter.n_image_tokens(vlm.processor, [image.size for image in images]))
    return Question(sample, prompt, tokens + engine._length(prompt))


def option_scores(
    vlm, questions: Sequence[Question], images: Sequence[Planes], rule: str, exact: bool = True
) -> list[Tensor]:
    """The scores [option] of each question on its images by the rule, in one forward pass, every option on the same.

    Args:
        exact: score the images rounded to 8 bits, as the engine would; else the floats themselves, whose scores are
            smooth in the pixels.

    Raises:
        NotDifferentiable: the images ask for a gradient and the processor passes none.
    """
    inputs = _inputs(vlm, questions, images, exact)
    groups = [
        engine._Group(each, [engine._Asked(index, asked.sample, asked.prompt, None)], asked.tokens)
        for index, (asked, each) in enumerate(zip(questions, images, strict=True))
    ]
    rows, nodes = zip(*(engine._grow(vlm, inputs, i, group) for i, group in enumerate(groups)), strict=True)
    positions, shift = vlm.adapter.positions(vlm.model, inputs)
    states, _ = engine._forward(vlm, rows, inputs, positions, shift, None)
    vlm.counters.update(encodes=sum(map(len, images)), prefills=len(rows))
    left = engine._answer_logps(vlm, groups, rows, nodes, states["post_norm"])
    scores = []
    for asked in questions:
        sums = []
        for answer in asked.prompt.answers:
            text, end, left = left.split([len(answer.text), len(answer.end), len(left) - len(answer.text + answer.end)])
            sums.append((text.sum(), end.sum(), len(answer.text)))
        text, end, count = zip(*sums, strict=True)
        letters = []
        for letter in asked.prompt.letters:
            own, left = left.split([len(letter.text), len(left) - len(letter.text)])
            letters.append(own.sum())
        parts = torch.stack(text), torch.stack(end), left.new_tensor(count)
        letter = torch.stack(letters) if letters else parts[0].new_full((len(sums),), torch.nan)
        scores.append(combine(rule, *parts, letter))
    return scores


def to_images(planes: Planes) -> tuple[Image.Image, ...]:
    """Rounded to 8 bits."""
    return tuple(
        Image.fromarray((plane.detach() * 255).round().clamp(0, 255).byte().permute(1, 2, 0).cpu().numpy())
        for plane in planes
    )


def _inputs(vlm, questions: Sequence[Question], images: Sequence[Planes], exact: bool) -> dict[str, Tensor]:
    """The processor's tensors: values of the 8-bit images, gradient of the floats (or all of it of the floats)."""
    messages = [asked.prompt.messages for asked in questions]
    rounded = model_inputs(vlm, [(turn, to_images(each)) for turn, each in zip(messages, images, strict=True)])
    wants = any(plane.requires_grad for each in images for plane in each)
    if exact and not wants:
        return rounded
    processor = type(vlm.processor.image_processor).__name__
    levels = [(turn, tuple(255 * plane for plane in each)) for turn, each in zip(messages, images, strict=True)]
    try:
        floats = model_inputs(vlm, levels)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise NotDifferentiable(f"{processor} of {vlm.name!r} does not take float tensors: {error}") from error
    if {k: v.shape for k, v in floats.items()} != {k: v.shape for k, v in rounded.items()}:
        raise NotDifferentiable(f"{processor} of {vlm.name!r} reads tensors differently from images")
    if wants and not any(value.requires_grad for value in floats.values()):
        raise NotDifferentiable(f"{processor} of {vlm.name!r} passes no gradient to the pixels")
    if not exact:
        return floats
    return {k: rounded[k] + v - v.detach() if v.requires_grad else rounded[k] for k, v in floats.items()}
