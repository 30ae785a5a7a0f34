"""Option scores as functions of pixels that gradients flow through: the engine's own rows, read without its shortcuts.

What is scored is always the 8-bit image, through the processor's ordinary path, so the scores are the engine's. The
gradient is that of the same processor fed with floats: it differs from what it stands for by rounding alone.
"""

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vfkit.readout.batch import Group, Question
from vfkit.readout.forward import model_inputs
from vfkit.readout.rows import forward_rows, rule_scores

Planes = tuple[Tensor, ...]
"""A sample's images, each float [3, height, width] in [0, 1]."""


class NotDifferentiable(RuntimeError):
    """The model's processor passes no gradient to the pixels."""


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
    groups = [Group(each, [asked]) for asked, each in zip(questions, images, strict=True)]
    done = forward_rows(vlm, groups, inputs, decode=False)
    return rule_scores(vlm, groups, done.states["post_norm"], rule)


def to_planes(images: Sequence[Image.Image], device) -> Planes:
    """Images as floats on a device."""
    arrays = [torch.from_numpy(np.array(image)) for image in images]
    return tuple(array.to(device).permute(2, 0, 1).float() / 255 for array in arrays)


def to_images(planes: Planes) -> tuple[Image.Image, ...]:
    """Rounded to 8 bits."""
    return tuple(
        Image.fromarray((plane.detach() * 255).round().clamp(0, 255).byte().permute(1, 2, 0).cpu().numpy())
        for plane in planes
    )


def _inputs(vlm, questions: Sequence[Question], images: Sequence[Planes], exact: bool) -> dict[str, Tensor]:
    """The processor's tensors: values of the 8-bit images, gradient of the floats (or all of it of the floats)."""
    messages = [asked.scored.messages for asked in questions]
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
