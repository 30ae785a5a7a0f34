"""The unit of work: one chunk of samples, from images to a part on disk. The same wherever it runs."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from PIL.Image import Image

from vfkit.images import ImageError, lasting_hash, open_images, to_png
from vfkit.measure import change
from vfkit.perturb import ATTACKS, Suite
from vfkit.readout.reader import Reader, Request
from vfkit.sample import Instance, Sample
from vfkit.study import store
from vfkit.study.job import Job
from vfkit.study.reuse import Kept, family_of, kept_sample
from vfkit.study.rows import Base, control_row, error_row, image_hash, prediction, record, sample_row

CONTROL = "same_question"
Model = Callable[[], Reader]
"""Returns the run's model; the first call loads it."""


class Done(NamedTuple):
    """Result of a chunk.

    Args:
        samples, failed: how many; failed ones have no base.
        errors: rows of errors, of samples and of instances.
        verified: samples that the oracle has read too.
        reused: samples of which some or all rows are another run's.
        checking: seconds that the oracle took.
        counters, overhead, reader: what the worker adds: costs of the chunk, the seconds that it has spent so far on
            loading and checking its model, and what that model is (None before one is loaded).
    """

    samples: int
    failed: int
    errors: int
    verified: int
    reused: int
    checking: float
    counters: Counter = Counter()
    overhead: float = 0.0
    reader: dict[str, Any] | None = None


class Read(NamedTuple):
    """An instance of a sample with its readout, or with an exception, or None if it does not apply."""

    base: Base
    instance: Instance
    readout: Any


def work(job: Job, model: Model, verify: int = 0) -> Done:
    """Read a chunk's bases, then all its instances and control images, and write them as one part in `job.folder`.

    Args:
        job: whose samples are the chunk.
        model: not called where nothing is left to read.
        verify: how many of the chunk's samples the oracle re-checks, each by its base and one perturbed instance.

    A sample whose base fails, and an instance that fails, become error rows. What the engine raises as a whole, and
    `VerifyError`, stop the run with nothing of this chunk written. A sample that another run has read under equal
    settings, with the same words and image contents, is not read again; families and control images that it lacks are,
    families with the base.
    """
    errors: list[dict] = []
    opened = _open(job, errors)
    kept = {request[0].id: one for request in opened if (one := _kept(job, *request))}
    again = [
        Base(sample, images, kept[sample.id], None, kept[sample.id].image_id)
        for sample, images in opened
        if sample.id in kept and not kept[sample.id].left(job.suite).families
    ]
    whole = {base.sample.id for base in again}
    bases = _bases(job, model, [request for request in opened if request[0].id not in whole], errors)
    for sample_id in kept.keys() - whole - {base.sample.id for base in bases}:
        del kept[sample_id]  # its base fails now
    for base in bases:
        if base.sample.id in kept and kept[base.sample.id].prediction != base.prediction:
            del kept[base.sample.id]  # a tie, on whose side the families that are read now depend
        elif base.sample.id in kept:
            kept[base.sample.id].drop_base()

    plan = _perturbed(job, bases, kept, errors) + _adversarial(job, model, bases, kept, errors)
    plan += _controls(job, bases + again, kept, errors)
    readouts = iter(_read(job, model, [(base.sample, one.images) for base, one in plan if one.applicable]))
    read = [Read(base, Instance("base", "base", {}, base.images), base.readout) for base in bases]
    read += [Read(base, one, next(readouts) if one.applicable else None) for base, one in plan]

    parts = _rows(job, read, errors)
    for one in kept.values():
        for kind, rows in one.rows.items():
            parts[kind] += rows
    order = ["base", *job.suite.families]
    parts["records"].sort(key=lambda row: order.index(family_of(row["family"])))
    begun = time.monotonic()
    verified = _verify(model, bases[:verify], read)
    checking = time.monotonic() - begun
    if job.config.inside:
        parts |= _inside(job, model, read, errors, {base.sample.id for base in bases[:verify]})
    parts["samples"] = [sample_row(base.sample) for base in bases + again]
    store.write_part(job.folder, [sample.id for sample in job.samples], **parts, errors=errors)
    n = len(job.samples)
    return Done(n, n - len(bases) - len(again), len(errors), verified, len(kept), checking)


# --- what is read -----------------------------------------------------------------------------------------------------


def _open(job: Job, errors: list[dict]) -> list[Request]:
    """The samples with their images; `errors` gains a row for each that has none or cannot be opened."""
    opened = []
    for sample in job.samples:
        try:
            if not sample.images:
                raise ImageError(f"{sample.id}: the sample has no image")
            opened.append((sample, open_images(sample)))
        except Exception as error:
            errors.append(error_row(sample.id, "base", "image", error))
    return opened


def _kept(job: Job, sample: Sample, images: tuple[Image, ...]) -> Kept | None:
    """The rows of a sample that another run holds; None where those runs read other images, or are damaged."""
    for place in job.kept.get(sample.id, ()):
        try:
            kept = kept_sample(*place, sample)
        except OSError:
            continue
        if kept.image_id == image_hash(images):
            return kept
    return None


def _left(job: Job, base: Base, kept: Mapping[str, Kept]) -> Suite:
    """The perturbations of a sample that are not kept."""
    return kept[base.sample.id].left(job.suite) if base.sample.id in kept else job.suite


def _bases(job: Job, model: Model, opened: list[Request], errors: list[dict]) -> list[Base]:
    """The samples whose base can be read and scored; `errors` gains a row for each of the others."""
    bases = []
    for (sample, images), readout in zip(opened, _read(job, model, opened), strict=True):
        try:
            bases.append(Base(sample, images, readout, prediction(job.config.rule, readout)[0], image_hash(images)))
        except Exception as error:
            errors.append(error_row(sample.id, "base", "read", error))
    return bases


def _perturbed(
    job: Job, bases: list[Base], kept: Mapping[str, Kept], errors: list[dict]
) -> list[tuple[Base, Instance]]:
    """Every instance of the suite, for every base, that is not kept; equal images, of which questions on one image have
    many, are held in memory once."""
    plan: list[tuple[Base, Instance]] = []
    held: dict[str, Image] = {}
    for base in bases if job.suite.families else ():
        try:
            if base.prediction is None:
                raise ValueError("the answer to the base names no option, so that nothing can be seen to flip")
            for one in _left(job, base, kept).instances(base.sample, base.prediction, base.images):
                if one.family == "identity" and not base.readout.scored:  # the stored answer: no noise floor from it
                    one = replace(one, images=(), reason="a hosted model is asked once about the same pixels")
                images = tuple(held.setdefault(lasting_hash(image), image) for image in one.images)
                plan.append((base, replace(one, images=images)))
        except Exception as error:
            errors.append(error_row(base.sample.id, "all", "perturb", error))
    return plan


def _adversarial(
    job: Job, model: Model, bases: list[Base], kept: Mapping[str, Kept], errors: list[dict]
) -> list[tuple[Base, Instance]]:
    """Make the instances of the suite's attacks that are not kept; `errors` gains a row for each image that fails."""
    groups: dict[tuple[str, ...], list[Base]] = {}
    for base in bases:
        groups.setdefault(tuple(_left(job, base, kept).attacks), []).append(base)
    groups.pop((), None)
    if not groups:
        return []
    from vfkit.attack import attacked

    config, pairs = job.config, []
    for names, group in groups.items():
        what = [(base.sample, base.images, base.readout.scores(config.rule)) for base in group]
        attacks = {name: job.suite.attacks[name] for name in names}
        vlm: Any = model()
        with vlm.in_use:
            made = attacked(vlm, what, attacks, config.rule, config.batch_tokens)
        pairs += [(base, one) for base, each in zip(group, made, strict=True) for one in each]
    errors += [error_row(base.sample.id, "attack", "attack", one) for base, one in pairs if isinstance(one, Exception)]
    return [(base, one) for base, one in pairs if not isinstance(one, Exception)]


def _controls(job: Job, bases: list[Base], kept: Mapping[str, Kept], errors: list[dict]) -> list[tuple[Base, Instance]]:
    """The same question on control images: of the first `controls` candidates that are not the sample's own image and
    can be opened, those whose rows are not kept. `errors` gains a row for each sample that has fewer.
    """
    opened = {base.sample.id: (base.images, base.image_id) for base in bases}
    plan: list[tuple[Base, Instance]] = []
    for base in bases:
        wanted: list[Instance] = []
        for partner in job.controls.get(base.sample.id, ()):
            if len(wanted) == job.config.controls:
                break
            if partner.id not in opened:
                try:
                    images = open_images(partner)
                except ImageError:  # has an error row of its own
                    continue
                opened[partner.id] = images, image_hash(images)
            images, image_id = opened[partner.id]
            if image_id != base.image_id:
                wanted.append(Instance(CONTROL, partner.id, {}, images))
        if len(wanted) < job.config.controls and (job.config.probes or job.config.inside):
            why = "there are no more samples on other images that open"
            few = LookupError(f"{len(wanted)} of {job.config.controls} control images: {why}")
            errors.append(error_row(base.sample.id, CONTROL, "control", few))
        if base.sample.id in kept:
            wanted = kept[base.sample.id].lacking(wanted)
        plan += [(base, one) for one in wanted]
    return plan


def _read(job: Job, model: Model, requests: list[Request]) -> list:
    return model().read_many(requests, job.config.probes, job.config.batch_tokens) if requests else []


# --- what is written --------------------------------------------------------------------------------------------------


def _rows(job: Job, read: list[Read], errors: list[dict]) -> dict[str, list[dict]]:
    """Rows by kind of part; `errors` gains a row for each readout that failed."""
    config = job.config
    parts: dict[str, list[dict]] = {kind: [] for kind in ("records", "vectors", "controls", "images")}
    bands = config.protocol.bands
    spectra = {base.sample.id: change.spectra_against(base.images, bands) for base, *_ in read if config.probes}
    for base, instance, readout in read:
        sample_id = base.sample.id
        try:
            if instance.family == CONTROL:
                parts["controls"] += [control_row(base, instance, readout)] if config.probes else []
                continue
            row = record(config.rule, base, instance, readout)
            if config.probes and instance.applicable:
                row |= change.measures(readout, base.readout, instance.images, spectra[sample_id])
                if config.keep_vectors or instance.family == "base":
                    parts["vectors"] += change.vectors(sample_id, instance.name, readout)
            if family_of(instance.family) in ATTACKS:  # too dear to be made again for a look at them
                who = {"sample_id": sample_id, "instance": instance.name}
                parts["images"] += [who | {"number": i, "png": to_png(one)} for i, one in enumerate(instance.images)]
            parts["records"].append(row)
        except Exception as error:
            errors.append(error_row(sample_id, instance.name, "read", error))
    return parts


def _inside(job: Job, model: Model, read: list[Read], errors: list[dict], verified: set[str]) -> dict[str, list[dict]]:
    """Rows by kind of what `config.inside` measures of every sample; `errors` gains a row for each that fails. Of those
    `verified` the layers are held against the oracle, which stops the run where they disagree."""
    from vfkit.inside.attribute import KINDS, Asked, attribute
    from vfkit.inside.verify import verify_inside

    config = job.config
    parts: dict[str, list[dict]] = {kind: [] for kind in KINDS}
    asked = Asked(config.rule, config.inside, config.inside_layers, config.inside_window, config.batch_tokens)
    for base in [base for base, instance, _ in read if instance.family == "base"]:
        own = [one for owner, one, readout in read if owner is base and not isinstance(readout, Exception)]
        own = [one for one in own if one.applicable and one.family != "base" and family_of(one.family) not in ATTACKS]
        perturbed = [one for one in own if one.family not in (CONTROL, "identity")]
        sample, images = base.sample, base.images
        if sample.id in verified and perturbed:
            verify_inside(model(), (sample, images), (sample, perturbed[0].images), asked)
        try:
            controls = [one for one in own if one.family == CONTROL]
            instances = [one for one in own if one.family != CONTROL]
            vlm: Any = model()
            with vlm.in_use:  # its layers are hooked
                rows = attribute(vlm, sample, images, base.prediction or 0, instances, controls, asked)
        except Exception as error:
            errors.append(error_row(sample.id, "base", "inside", error))
            continue
        who = {"sample_id": sample.id, "image_id": base.image_id}
        for kind in KINDS:
            parts[kind] += [{"family": "base", "instance": "base"} | who | row for row in rows[kind]]
    return parts


def _verify(model: Model, bases: Sequence[Base], read: list[Read]) -> int:
    """Check samples against the oracle: each by its base and by its first perturbed instance that was read."""
    if not bases or not bases[0].readout.scored:  # a hosted model has no second path to be read by
        return 0
    from vfkit.readout.verify import verify

    checks: list[tuple[Request, Any]] = []
    for base in bases:
        checks.append(((base.sample, base.images), base.readout))
        checks += [
            ((base.sample, instance.images), readout)
            for owner, instance, readout in read
            if owner is base and instance.family not in ("base", "identity", CONTROL)
            if instance.applicable and not isinstance(readout, Exception)
        ][:1]
    requests, readouts = zip(*checks, strict=True)
    verify(model(), list(requests), list(readouts))
    return len(bases)
