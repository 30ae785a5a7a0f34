"""The unit of work: one chunk of samples, from images to a part on disk. The same wherever it runs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL.Image import Image

import vfkit
from vfkit.images import ImageError, content_hash, load_image, to_png
from vfkit.measure import change
from vfkit.perturb import ATTACKS
from vfkit.readout import rules
from vfkit.sample import Instance, Sample
from vfkit.study import store
from vfkit.study.config import StudyConfig
from vfkit.study.plan import Partners

CONTROL = "same_question"
Request = tuple[Sample, tuple[Image, ...]]


class Done(NamedTuple):
    """What became of a chunk. `failed` samples have no base; `errors` counts the rows of samples and of instances."""

    samples: int
    failed: int
    errors: int
    verified: int
    counters: Counter


class Base(NamedTuple):
    sample: Sample
    images: tuple[Image, ...]
    readout: Any
    prediction: int | None  # None where a hosted model's answer names no option
    image_id: str


def model(config: StudyConfig):
    """The study's model, loaded; a hosted one keeps its answers under `out/answers`, for all studies."""
    if vfkit.models.is_hosted(config.model):
        return vfkit.models.load_hosted(config.model, Path(config.out, "answers"))
    vlm = vfkit.load_model(config.model, device=config.device, dtype=config.dtype)
    vlm.max_new_tokens = config.max_new_tokens
    return vlm


def work(
    config: StudyConfig,
    chunk: Sequence[Sample],
    vlm,
    suite,
    folder: Path,
    verify: int = 0,
    partners: Partners | None = None,
) -> Done:
    """Read a chunk's bases, then all its instances and controls, and write them as one part of the run in `folder`.

    Args:
        chunk: samples whose images are not open yet.
        vlm: a loaded model.
        suite: what `vfkit.natural_suite` returns.
        verify: how many of the chunk's samples the oracle re-checks, each by its base and one perturbed instance.
        partners: with probes, the samples on whose images each sample's question is asked too, by sample id.

    A sample whose base fails, and an instance that fails, become error rows. What the engine raises as a whole, and
    `VerifyError`, stop the run with nothing of this chunk written.
    """
    before = Counter(vlm.counters)
    errors: list[dict] = []
    bases = _bases(config, chunk, vlm, errors)

    plan: list[tuple[Base, Instance]] = []
    held: dict[str, Image] = {}
    for base in bases if suite.families else ():
        try:
            if base.prediction is None:
                raise ValueError("the answer to the base names no option, so that nothing can be seen to flip")
            for one in suite.instances(base.sample, base.prediction, base.images):
                plan.append((base, _held_once(one if base.readout.scored else _asked_once(one), held)))
        except Exception as error:
            errors.append(_error_row(base.sample, "all", "perturb", error))
    plan += _adversarial(config, vlm, suite, bases, errors)
    opened = {base.sample.id: (base.images, base.image_id) for base in bases}
    plan += [(base, one) for base in bases for one in _controls(config, base, partners or {}, opened)]
    readouts = iter(_read(config, vlm, [(base.sample, one.images) for base, one in plan if one.applicable]))
    plan = [(base, one, next(readouts) if one.applicable else None) for base, one in plan]
    plan = [(base, Instance("base", "base", {}, base.images), base.readout) for base in bases] + plan

    records, vectors, controls, images = [], [], [], []
    spectra = {base.sample.id: change.spectra_against(base.images) for base in bases if config.probes}
    for base, instance, readout in plan:
        try:
            if instance.family == CONTROL:
                controls.append(_control_row(base, instance, readout))
                continue
            row = _row(config, base, instance, readout)
            if config.probes and instance.applicable:
                row |= change.measures(readout, base.readout, instance.images, spectra[base.sample.id])
                if config.keep_vectors or instance.family == "base":
                    vectors += change.vectors(base.sample.id, instance.name, readout)
            images += _kept_images(base, instance)
            records.append(row)
        except Exception as error:
            errors.append(_error_row(base.sample, instance.name, "read", error))

    verified = _verify(vlm, bases[:verify], plan)
    ids = [sample.id for sample in chunk]
    asked = [_sample_row(base.sample) for base in bases]
    store.write_part(
        folder, ids, records, samples=asked, errors=errors, vectors=vectors, controls=controls, images=images
    )
    counters = Counter(vlm.counters)
    counters.subtract(before)
    return Done(len(chunk), len(chunk) - len(bases), len(errors), verified, counters)


def _bases(config: StudyConfig, chunk: Sequence[Sample], vlm, errors: list[dict]) -> list[Base]:
    """The samples whose base can be opened, read and scored; `errors` gains a row for each of the others."""
    opened: list[Request] = []
    for sample in chunk:
        try:
            if not sample.images:
                raise ImageError(f"{sample.id}: the sample has no image")
            opened.append((sample, tuple(load_image(source, sample.id) for source in sample.images)))
        except Exception as error:
            errors.append(_error_row(sample, "base", "image", error))
    bases = []
    for (sample, images), readout in zip(opened, _read(config, vlm, opened), strict=True):
        try:
            bases.append(Base(sample, images, readout, _judged(config, readout)[0], _hash(images)))
        except Exception as error:
            errors.append(_error_row(sample, "base", "read", error))
    return bases


def _asked_once(instance: Instance) -> Instance:
    """A hosted model's answer to the same pixels is the stored one: no second reading, and no noise floor from it."""
    if instance.family != "identity":
        return instance
    return replace(instance, images=(), reason="a hosted model is asked once about the same pixels")


def _held_once(instance: Instance, held: dict[str, Image]) -> Instance:
    """The instance with images of equal content, which questions on one image have many of, held in memory once."""
    return replace(instance, images=tuple(held.setdefault(content_hash(image), image) for image in instance.images))


def _adversarial(config: StudyConfig, vlm, suite, bases: list[Base], errors: list[dict]) -> list[tuple[Base, Instance]]:
    """What the suite's attacks make of all bases; `errors` gains a row for each image that fails."""
    if not suite.attacks or not bases:
        return []
    from vfkit.attack import attacked

    what = [(base.sample, base.images, base.readout.scores(config.rule)) for base in bases]
    made = attacked(vlm, what, suite.attacks, config.rule, config.batch_tokens)
    pairs = [(base, one) for base, each in zip(bases, made, strict=True) for one in each]
    errors += [_error_row(base.sample, "attack", "attack", one) for base, one in pairs if isinstance(one, Exception)]
    return [(base, one) for base, one in pairs if not isinstance(one, Exception)]


def _kept_images(base: Base, instance: Instance) -> list[dict[str, Any]]:
    """Adversarial images and their controls as they were scored: too dear to be made again for a look at them."""
    if instance.family.removesuffix("_noise") not in ATTACKS:
        return []
    who = {"sample_id": base.sample.id, "instance": instance.name}
    return [who | {"number": i, "png": to_png(image)} for i, image in enumerate(instance.images)]


def _controls(config: StudyConfig, base: Base, partners: Partners, opened: dict[str, tuple]) -> list[Instance]:
    """The same question on the first few other samples' images that are not its own and can be opened: one that
    cannot has an error row of its own. `opened` gains the images, and their hash, of every partner."""
    controls: list[Instance] = []
    for partner in partners.get(base.sample.id, ()):
        if len(controls) == config.controls:
            break
        if partner.id not in opened:
            try:
                images = tuple(load_image(source, partner.id) for source in partner.images)
            except ImageError:
                continue
            opened[partner.id] = images, _hash(images)
        images, image_id = opened[partner.id]
        if image_id != base.image_id:
            controls.append(Instance(CONTROL, partner.id, {}, images))
    return controls


def _control_row(base: Base, control: Instance, readout: Any) -> dict[str, Any]:
    if isinstance(readout, Exception):
        raise readout
    who = {"sample_id": base.sample.id, "partner_id": control.name, "image_id": base.image_id}
    return who | change.from_base(readout, base.readout)


def _read(config: StudyConfig, vlm, requests: list[Request]) -> list:
    if not requests:
        return []
    return vlm.read_many(requests, config.probes, config.batch_tokens)


def _scores(config: StudyConfig, readout: Any) -> np.ndarray:
    """The scores of a readout; raises the exception that stands for a failed one."""
    if isinstance(readout, Exception):
        raise readout
    scores = readout.scores(config.rule)
    if np.isnan(scores).any():
        raise ValueError(f"the model's scores are not numbers: {scores.tolist()}")
    return scores


def _judged(config: StudyConfig, readout: Any) -> tuple[int | None, bool | None]:
    """(prediction, whether it is tied); nothing is tied where nothing is scored."""
    if not isinstance(readout, Exception) and not readout.scored:
        return readout.named, None
    return rules.predict(_scores(config, readout))


def _row(config: StudyConfig, base: Base, instance: Instance, readout: Any) -> dict[str, Any]:
    """One record. The readout's columns stay empty where the instance does not apply."""
    row = {
        "sample_id": base.sample.id,
        "category": base.sample.category,
        "family": instance.family,
        "instance": instance.name,
        "params": json.dumps(instance.params, sort_keys=True),
        "applicable": instance.applicable,
        "reason": instance.reason,
        "answer": base.sample.answer,
        "n_options": len(base.sample.options),
        "base_prediction": base.prediction,
        "image_id": base.image_id,
    }
    if instance.applicable:
        row["prediction"], row["tied"] = _judged(config, readout)
        if readout.scored:
            row["margin"], row["base_margin"] = rules.margins(_scores(config, readout), base.prediction)
            row["off_mass"] = float(readout.off_mass)
            options = readout.options
            row |= {part: options[part].tolist() for part in ("logp_text", "logp_end", "logp_letter", "n_tokens")}
        else:
            row |= change.answers(readout)
        if instance.images:  # a blank may be none at all
            row["image_hash"] = _hash(instance.images)
            row["width"], row["height"] = instance.images[0].size
    return row


def _sample_row(sample: Sample) -> dict[str, Any]:
    """What was asked, so that tables by anything a data set knows of its rows need the run alone."""
    fields = ("category", "question", "hint", "options", "answer", "prompt")
    row = {"sample_id": sample.id} | {name: getattr(sample, name) for name in fields}
    return row | {"n_images": len(sample.images), "meta": json.dumps(sample.meta, sort_keys=True, default=str)}


def _hash(images: Sequence[Image]) -> str:
    return "+".join(map(content_hash, images))


def _error_row(sample: Sample, instance: str, stage: str, error: Exception) -> dict[str, str]:
    what = {"sample_id": sample.id, "instance": instance, "stage": stage}
    return what | {"error": type(error).__name__, "message": str(error)}


def _verify(vlm, bases: list[Base], plan: list[tuple[Base, Instance, Any]]) -> int:
    """Hold samples against the oracle: each by its base and by its first perturbed instance that was read."""
    if not bases or not bases[0].readout.scored:  # a hosted model has no second path to be read by
        return 0
    from vfkit.readout.verify import verify

    checks: list[tuple[Request, Any]] = []
    for base in bases:
        checks.append(((base.sample, base.images), base.readout))
        checks += [
            ((base.sample, instance.images), readout)
            for owner, instance, readout in plan
            if owner is base and instance.family not in ("base", "identity")
            if instance.family != CONTROL and instance.applicable and not isinstance(readout, Exception)
        ][:1]
    requests, readouts = zip(*checks, strict=True)
    verify(vlm, list(requests), list(readouts))
    return len(bases)
