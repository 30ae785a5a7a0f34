"""Self-check of what is measured inside: the hooked engine against the plain oracle, with the model in use."""

from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from vfkit.inside.attribute import Asked
from vfkit.inside.layers import Knockout, Patch
from vfkit.inside.oracle import Plain
from vfkit.inside.passes import edited_scores, read_scenes
from vfkit.inside.scene import make_scene
from vfkit.readout.reader import Request
from vfkit.readout.verify import TOLERANCE, VerifyError, fits_in_float32, in_float32


def verify_inside(vlm, base: Request, perturbed: Request, asked: Asked) -> float:
    """Read a sample's base and one perturbed instance both ways; returns the largest difference.

    Checked are the places, all states, margins and attention weights by layer and, where image tokens correspond, a
    patch and a knockout in the middle, and that a patch of a run's own states changes nothing at all. Half types are
    checked in float32 if the model fits, where only mistakes remain.

    Raises:
        VerifyError: a number differs by more than `vfkit.readout.verify.TOLERANCE`.
    """
    exactly = vlm.dtype != torch.float32 and fits_in_float32(vlm)
    with in_float32(vlm) if exactly else nullcontext(vlm) as model:
        found = differences(model, base, perturbed, asked)
        worst, allowed = max(found, key=found.__getitem__), TOLERANCE[model.dtype]
    if not found[worst] <= allowed:
        raise VerifyError(
            f"layers and oracle disagree on sample {base[0].id!r} with model {vlm.name!r}: {worst} differs by "
            f"{found[worst]:.3g}, at most {allowed:.3g} is allowed. Nothing measured inside this model can be trusted: "
            "its layers are not where this version of the kit looks for them."
        )
    return found[worst]


def differences(vlm, base: Request, perturbed: Request, asked: Asked) -> dict[str, float]:
    """Largest difference between engine and oracle by kind of number: absolute, of states relative to the largest."""
    scenes = [make_scene(vlm, *request) for request in (base, perturbed)]
    one, other = read_scenes(vlm, scenes, asked.rule, attention="attention" in asked.measures)
    plain = [Plain(vlm, *request, asked.rule) for request in (base, perturbed)]
    found = {"places": 0.0 if other.places == plain[1].places else np.inf}
    before, _ = plain[1].states()
    found["states"] = max(map(_relative, other.states.before, before))
    lens = plain[1].lens()
    long = max([1.0, *(len(answer.text) / 16 for answer in scenes[1].question.scored.answers)])
    found["lens"] = float(np.abs(np.array(lens) - other.scores).max()) / long
    if other.attention:
        pairs = zip(other.attention, plain[1].attention(), strict=True)
        found["attention"] = max(float((mine[:, : theirs.shape[1]] - theirs).abs().max()) for mine, theirs in pairs)
    if one.keeps_grid(other) and {"patching", "knockout"} & set(asked.measures):
        image, layer = other.places["image"], len(before) // 2
        some, window = image[: -(-len(image) // 4)], range(layer, len(before) - 1)
        edits = [None, Patch(layer, image, other.states), Patch(layer, image, one.states), Knockout(some, window)]
        edits.append(Patch(0, image, one.states))
        mine = edited_scores(vlm, scenes[1], edits, asked.rule, asked.batch_tokens)
        found["own states patched"] = float(np.abs(mine[1] - mine[0]).max()) / long
        found["patch"] = float(np.abs(mine[2] - plain[1].patched(layer, image, plain[0])).max()) / long
        found["knockout"] = float(np.abs(mine[3] - plain[1].knocked_out(some, window)).max()) / long
        found["all image tokens patched"] = float(np.abs(mine[4] - plain[0].lens()[-1]).max()) / long
    return {name: value if value == value else np.inf for name, value in found.items()}


def _relative(mine: Tensor, theirs: Tensor) -> float:
    return float((mine[: len(theirs)] - theirs).abs().max() / theirs.abs().max().clamp(min=1))
