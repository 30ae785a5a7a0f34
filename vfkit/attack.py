"""Adversarial images (HI 6, F.3): projected gradient descent on raw pixels, through the model's own processor.

One image for all options (`copies="shared"`). Every step moves each value by `step` along the sign of the gradient of
the base-label margin under the study's scoring rule; then band projection and clipping alternate until the perturbation
is in its band and within eps and [0, 1]. The result is written as an 8-bit PNG and opened again by `load_image`: only
the engine's readout of that image counts. Units: pixel values in [0, 1]; 8/255 is eight grey levels.

HI's program (`copies="label_only"`, METHODS 11) attacks the base label's copy of the image and scores the other options
on the clean one, takes eps and step in units of values in [-1, 1], and projects gradients, not what they add up to.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vfkit.images import load_image, to_png
from vfkit.perturb import frequency
from vfkit.readout import gradient
from vfkit.readout.batch import Question, image_tokens, question
from vfkit.sample import LETTERS, Instance, Sample

BAND = {"pgd_pixel": "all", "pgd_low": "low", "pgd_high": "high"}
LEAKAGE = 0.01  # largest share of the perturbation's energy outside its band, before rounding
ROUNDS = 500  # of band projection and clipping, at most
GAIN, HALVINGS = 32.0, 12  # of noise that is brought to the RMS of an attack: largest gain, trials
ROOM = 8  # how much fewer tokens a batch holds here than in the engine: every layer's states are kept


@dataclass
class Task:
    """State of one attack: an adversarial image, or the images of one sample."""

    index: int
    question: Question
    n_tokens: int  # of its row
    images: tuple[Image.Image, ...]
    label: int  # the option whose margin is lowered, or, with a target, raised
    sign: float  # -1: away from the label; +1: towards it
    family: str
    params: dict[str, Any]
    rival: float | None = None  # the best other option's score on the clean image, where only the label's copy changes
    planes: tuple[Tensor, ...] = ()  # the clean images, each [3, height, width]
    deltas: list[Tensor] = field(default_factory=list)
    trace: list[float] = field(default_factory=list)  # margin of the label at every step, the clean one first

    @property
    def band(self) -> str:
        return BAND[self.family]

    def adversarial(self) -> tuple[Tensor, ...]:
        return tuple(plane + delta for plane, delta in zip(self.planes, self.deltas, strict=True))


def attacked(
    vlm,
    bases: Sequence[tuple[Sample, tuple[Image.Image, ...], np.ndarray]],
    attacks: dict[str, dict[str, Any]],
    rule: str = "paper",
    batch_tokens: int = 8192,
) -> list[list[Instance | Exception]]:
    """Make adversarial instances of many samples, and for each `controls` images with noise of the same band and RMS.

    Args:
        bases: sample, its open images, and its clean scores by the rule [option].
        attacks: parameters by family, as `Suite.attacks` holds them.
        batch_tokens: the engine's batch size; here batches are `ROOM` times smaller.

    Returns:
        For each base its instances, and an exception in the place of each that failed. `params` of an adversarial
        instance: those of the family, `label` and `trace` (the label's margin at every step), and, of the perturbation,
        `leakage` before rounding and `max_abs`, `rms`, `leakage_8bit` after it. Its noise is an instance of the family
        `<family>_noise`: Gaussian noise in the same band, at the attack's own RMS; within the same bounds where noise
        within them can be that large.

    Raises:
        NotDifferentiable: the model's processor passes no gradient to the pixels.

    Which samples share a batch changes gradients by rounding, and so, where they are near zero, their signs: the same
    chunks give the same images, other chunks nearly the same.
    """
    vlm.model.requires_grad_(False)
    made_of: list[list[Instance | Exception]] = [[] for _ in bases]
    for family, settings in attacks.items():
        tasks = []
        for index, base in enumerate(bases):
            made: list[Any]
            try:
                made = list(_tasks(vlm, index, base, family, settings))
            except Exception as error:
                made = [error]
            made_of[index] += [one for one in made if not isinstance(one, Task)]
            tasks += [one for one in made if isinstance(one, Task)]
        tasks.sort(key=lambda task: -task.n_tokens)
        while tasks:
            n = max(1, batch_tokens // ROOM // tasks[0].n_tokens)
            for task, done in zip(tasks[:n], _descend_or_fail(vlm, tasks[:n], rule), strict=True):
                made_of[task.index] += done
            tasks = tasks[n:]
    return made_of


def _tasks(vlm, index: int, base, family: str, settings: dict[str, Any]) -> Iterable[Task | Instance]:
    """Yield one task per eps, or an instance that does not apply if there is nothing to attack."""
    sample, images, scores = base
    label, sign, reason = _aim(sample, np.asarray(scores), settings["target"])
    sizes = [(image.height, image.width) for image in images]
    if not all(frequency.mask(*size, BAND[family], settings["cutoff"]).any() for size in sizes):
        reason = f"an image is too small to have {BAND[family]} frequencies"
    asked: Any = None if reason else question(vlm, sample, images)
    n_tokens = 0 if reason else image_tokens(vlm, images) + asked.scored.n_head + asked.n_tokens
    for eps in settings["eps"]:
        params = settings | {"eps": eps, "band": BAND[family]}
        if settings["copies"] == "label_only":  # of values in [-1, 1], whose range is twice as wide
            params |= {"eps": eps / 2, "step": settings["step"] / 2}
        name = f"{family}_{255 * params['eps']:g}" + (f"_to_{settings['target']}" if settings["target"] else "")
        if reason:
            yield Instance(family, name, params, (), reason)
        else:
            params |= {"label": label, "name": name}
            rival = float(np.delete(scores, label).max()) if settings["copies"] == "label_only" else None
            yield Task(index, asked, n_tokens, images, label, sign, family, params, rival)


def _aim(sample: Sample, scores: np.ndarray, target: str) -> tuple[int, float, str]:
    """Return the label whose margin is attacked, the sign of the attack, and a reason if it is impossible."""
    ranked = np.argsort(-scores, kind="stable")
    if len(scores) < 2:
        return 0, -1.0, "a single option has no margin"
    if not target:
        return int(ranked[0]), -1.0, ""
    label = {"second": int(ranked[1]), "last": int(ranked[-1])}.get(target, LETTERS.find(target))
    if label >= len(scores):
        return label, 1.0, f"there is no option {target}"
    return label, 1.0, "the target is the base answer" if label == ranked[0] else ""


def _descend_or_fail(vlm, tasks: list[Task], rule: str) -> Sequence[Sequence[Instance | Exception]]:
    """Attack a batch; in halves if memory runs out, one by one to find out which task fails."""
    try:
        return [_instances(task) for task in _descend(vlm, tasks, rule)]
    except gradient.NotDifferentiable:  # true of the model, not of a sample
        raise
    except Exception as error:
        failure = error.with_traceback(None)  # which would keep the batch's tensors in memory
    if len(tasks) == 1:
        return [[failure]]
    half = len(tasks) // 2 if isinstance(failure, torch.OutOfMemoryError) else 1
    return [each for i in range(0, len(tasks), half) for each in _descend_or_fail(vlm, tasks[i : i + half], rule)]


def _descend(vlm, tasks: list[Task], rule: str) -> list[Task]:
    """Fill `deltas` and `trace` of tasks with an equal number of steps."""
    for task in tasks:
        task.planes = gradient.to_planes(task.images, vlm.device)
        task.deltas, task.trace = [torch.zeros_like(plane) for plane in task.planes], []
        if task.params["random_start"]:
            draw = frequency.generator(f"start/{task.question.sample.id}/{task.params['random_start']}")
            _set(task, [_like(draw.uniform(-1, 1, plane.shape), plane) * task.params["eps"] for plane in task.planes])
    for _ in range(tasks[0].params["steps"]):
        images = [tuple(plane.detach().requires_grad_() for plane in task.adversarial()) for task in tasks]
        margins = _margins(vlm, tasks, images, rule)
        leaves = [plane for each in images for plane in each]
        moved = torch.stack([task.sign * m for task, m in zip(tasks, margins, strict=True)]).sum()
        slopes = iter(torch.autograd.grad(moved, leaves))
        for task in tasks:
            _set(task, [delta + task.params["step"] * _sign(next(slopes), task) for delta in task.deltas])
    with torch.no_grad():
        _margins(vlm, tasks, [task.adversarial() for task in tasks], rule)
    return tasks


def _margins(vlm, tasks: list[Task], images: list[tuple[Tensor, ...]], rule: str) -> list[Tensor]:
    """Compute each task's label score minus the best other (its `rival`, where it has one), and add it to its trace."""
    margins = []
    for task, scores in zip(tasks, gradient.option_scores(vlm, [t.question for t in tasks], images, rule), strict=True):
        others = torch.cat([scores[: task.label], scores[task.label + 1 :]])
        margins.append(scores[task.label] - (others.max() if task.rival is None else task.rival))
        task.trace.append(round(margins[-1].item(), 6))
    return margins


def _sign(slope: Tensor, task: Task) -> Tensor:
    """Return the sign of the gradient, projected on the task's band: the steepest step in the L-infinity norm."""
    return in_band(slope, task.band, task.params["cutoff"]).sign()


def _set(task: Task, deltas: list[Tensor]) -> None:
    band = task.band if task.rival is None else "all"
    limits = task.params["eps"], band, task.params["cutoff"]
    task.deltas = [confined(delta, plane, *limits) for delta, plane in zip(deltas, task.planes, strict=True)]


# --- band and box -----------------------------------------------------------------------------------------------------


def confined(delta: Tensor, clean: Tensor, eps: float, band: str, cutoff: float) -> Tensor:
    """Project `delta` [3, height, width] on its band, on eps and on [0, 1] with `clean` added: alternating projections,
    the box last, until at most `LEAKAGE` of the energy is out of the band.

    For an image so dark or so bright that these sets do not meet, the perturbation is zero.
    """
    low, high = (-clean).clamp(min=-eps), (1 - clean).clamp(max=eps)
    delta = delta.clamp(low, high)
    if band == "all":
        return delta
    keep, weight = _keep(delta, band, cutoff)
    for _ in range(ROUNDS):
        spectrum = torch.fft.rfft2(delta)
        power = spectrum.abs().square() * weight
        if (power * ~keep).sum() <= LEAKAGE * power.sum():
            return delta
        delta = torch.fft.irfft2(spectrum * keep, s=delta.shape[-2:]).clamp(low, high)
    return torch.zeros_like(delta)


def in_band(plane: Tensor, band: str, cutoff: float) -> Tensor:
    """Project [3, height, width] on a band."""
    if band == "all":
        return plane
    keep, _ = _keep(plane, band, cutoff)
    return torch.fft.irfft2(torch.fft.rfft2(plane) * keep, s=plane.shape[-2:])


def _keep(plane: Tensor, band: str, cutoff: float) -> tuple[Tensor, Tensor]:
    height, width = plane.shape[-2:]
    keep = torch.from_numpy(frequency.mask(height, width, band, cutoff)).to(plane.device)
    return keep, _like(frequency.weights(width), plane)


# --- instances --------------------------------------------------------------------------------------------------------


def _instances(task: Task) -> list[Instance]:
    """Make the adversarial instance and its noise controls."""
    name = task.params.pop("name")
    params = task.params | {"trace": task.trace}
    instances = [_instance(task, task.family, name, params, task.deltas)]
    for trial in range(task.params["controls"]):
        end = f"{name.removeprefix(task.family)}_{trial}"
        params = task.params | {"trial": trial}
        instances.append(
            _instance(task, f"{task.family}_noise", f"{task.family}_noise{end}", params, _noise(task, trial))
        )
    return instances


def _noise(task: Task, trial: int) -> list[Tensor]:
    """Noise of the attack's band and, as an 8-bit image, of its RMS: within eps and [0, 1] or, where noise within them
    is never that large (an attack that uses all its room in a narrow band), Gaussian noise without the bound eps."""
    draw = frequency.generator(f"control/{task.question.sample.id}/{task.band}/{trial}")
    limits = task.params["eps"], task.band, task.params["cutoff"]
    white = [in_band(_like(draw.normal(size=plane.shape), plane), *limits[1:]) for plane in task.planes]
    size = _rms(_rounded(task, task.deltas))
    if not size:
        return [torch.zeros_like(each) for each in white]

    def within(gain: float) -> list[Tensor]:
        scale = gain * size / _rms(white)
        return [confined(scale * each, plane, *limits) for each, plane in zip(white, task.planes, strict=True)]

    make, low, high = within, 0.5, GAIN
    if _rms(_rounded(task, within(GAIN))) < size:
        make = lambda gain: [gain * size / _rms(white) * each for each in white]  # noqa: E731
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        noise = make(middle)
        reached = _rms(_rounded(task, noise))
        if abs(reached - size) <= 0.005 * size:
            break
        low, high = (middle, high) if reached < size else (low, middle)
    return noise


def _rounded(task: Task, deltas: list[Tensor]) -> list[Tensor]:
    """Round a perturbation as the 8-bit image does."""
    whole = [(plane + delta).clamp(0, 1) for plane, delta in zip(task.planes, deltas, strict=True)]
    return [(255 * each).round() / 255 - plane for each, plane in zip(whole, task.planes, strict=True)]


def _instance(task: Task, family: str, name: str, params: dict[str, Any], deltas: list[Tensor]) -> Instance:
    whole = [plane + delta for plane, delta in zip(task.planes, deltas, strict=True)]
    images = tuple(load_image(to_png(image), task.question.sample.id) for image in gradient.to_images(tuple(whole)))
    arrays = [delta.permute(1, 2, 0).double().cpu().numpy() for delta in deltas]
    leak = 0.0 if task.band == "all" else frequency.leakage(arrays, task.band, task.params["cutoff"])
    measured = {"leakage": round(leak, 7)} | frequency.audit(task.images, images, task.band, task.params["cutoff"])
    return Instance(family, name, params | measured, images)


def _rms(deltas: list[Tensor]) -> float:
    return float(torch.cat([delta.flatten() for delta in deltas]).double().square().mean().sqrt())


def _like(array: np.ndarray, plane: Tensor) -> Tensor:
    return torch.from_numpy(array).to(plane)
