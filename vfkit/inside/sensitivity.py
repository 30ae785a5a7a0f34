"""Local sensitivity: how far states move for a change of pixels, and how far pixels may move before an answer does.

The linear radius assumes that scores are linear in the pixels. They are not: it is no certificate, only the distance at
which the tangent plane of the nearest rival crosses.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from vfkit.inside.scene import Scene
from vfkit.readout import gradient


def pixel_distance(base: Sequence[Image.Image], other: Sequence[Image.Image]) -> float:
    """L2 distance of the pixels, values in [0, 1], over all images; one of another size is resized (bicubic) first."""
    total = 0.0
    for one, two in zip(base, other, strict=True):
        resized = two if two.size == one.size else two.resize(one.size, Image.Resampling.BICUBIC)
        total += float((((np.asarray(resized, float) - np.asarray(one, float)) / 255) ** 2).sum())
    return total**0.5


def linear_radius(vlm, scene: Scene, rule: str) -> dict[str, float | int]:
    """The linear radius of a scene: min over rivals j of (s_y - s_j) / ||grad (s_y - s_j)||_1, y the predicted option
    (METHODS 16).

    Returns:
        `prediction`, `margin` in nats, `radius` in 1/255 (the largest change of any value, L-infinity), the `rival`
        that it belongs to, and `slope`, the L1 norm of that gradient, per unit of pixel value.

    Raises:
        NotDifferentiable: the model's processor passes no gradient to the pixels.
        ValueError: a single option has no rival.
    """
    vlm.model.requires_grad_(False)
    planes = tuple(plane.requires_grad_() for plane in gradient.to_planes(scene.images, vlm.device))
    (scores,) = gradient.option_scores(vlm, [scene.question], [planes], rule)
    return nearest_rival(scores, planes)


def nearest_rival(scores: Float[Tensor, " option"], inputs: Sequence[Tensor]) -> dict[str, float | int]:
    """As `linear_radius`, of scores [option] that depend on inputs with values in [0, 1]."""
    if len(scores) < 2:
        raise ValueError("a single option has no rival")
    label = int(scores.argmax())
    nearest: dict[str, float | int] = {}
    for rival in [option for option in range(len(scores)) if option != label]:
        lead = scores[label] - scores[rival]
        slope = float(sum(g.abs().sum() for g in torch.autograd.grad(lead, inputs, retain_graph=True)))
        radius = 255 * float(lead.detach()) / slope if slope else float("inf")
        if not nearest or radius < nearest["radius"]:
            nearest = {"prediction": label, "radius": radius, "rival": rival, "slope": slope}
    first, second = scores.detach().double().topk(2).values.tolist()
    return nearest | {"margin": first - second}
