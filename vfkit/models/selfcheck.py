"""The first thing to do with a real model: `python -m vfkit.models --check NAME`.

Loads it, reads two drawn pictures with and without perturbation, and holds the engine against the oracle, so that what
would be wrong with a study is known before one is started.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from PIL import Image, ImageDraw

from vfkit.models.load import VLM, load_model
from vfkit.models.registry import ModelUnavailable, find, released
from vfkit.perturb import natural_suite
from vfkit.readout.conversation import scored_prompt
from vfkit.readout.greedy import end_tokens
from vfkit.readout.reader import Request
from vfkit.readout.readout import Readout
from vfkit.readout.verify import TOLERANCE, VerifyError, compare, exact_difference, rounding_floor, verify
from vfkit.sample import Sample

SIZE = (640, 480)
FAMILIES = ("identity", "scale", "rotation", "text_overlay")  # as many kinds of images as the whole suite makes
COLOURS = ("red", "green", "blue", "yellow")


@dataclass
class SelfCheck:
    """What was found; printing it gives the report, `wrong` lists what looks wrong (empty where nothing does)."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        end = [f"LOOKS WRONG: {each}" for each in self.wrong] or ["nothing looks wrong"]
        return "\n".join([*self.lines, *end])


def pictures() -> list[tuple[Sample, Image.Image]]:
    """Two drawn pictures with a question that has one right answer."""
    made = []
    for n, colour in enumerate(COLOURS[:2]):
        image = Image.new("RGB", SIZE, "white")
        ImageDraw.Draw(image).ellipse((200, 120, 440, 360), fill=colour, outline="black", width=4)
        made.append((Sample(f"picture {n + 1}", (image,), "What color is the circle?", COLOURS, n), image))
    return made


def self_check(name: str, device: str | None = None, dtype: str | None = None, n: int = 500) -> SelfCheck:
    """Load a model and read with it what a study would read.

    Args:
        name, device, dtype: as for `vfkit.load_model`.
        n: samples of the study whose time is estimated.

    Raises:
        ModelUnavailable: as `load_model`; the message says what is wrong with the checkpoint.
    """
    start, report = time.monotonic(), SelfCheck()
    vlm = load_model(name, device, dtype)
    if not isinstance(vlm, VLM):
        raise ModelUnavailable(f"model {name!r} is hosted: there is nothing here to check; ask it one sample instead")
    _say_what_loaded(report, name, vlm, time.monotonic() - start)
    _say_conversation(report, vlm)
    asked = pictures()
    requests: list[Request] = [(sample, (image,)) for sample, image in asked]
    vlm.read_many(requests[:1])  # the first call pays for what later ones find ready
    start = time.monotonic()
    read = _good(vlm.read_many(requests, probes=True))
    perturbed = [
        (sample, one.images, one.family)
        for (sample, image), base in zip(asked, read, strict=True)
        for one in natural_suite(FAMILIES).instances(sample, base.prediction() or 0, (image,))
    ]
    others = _good(vlm.read_many([(sample, images) for sample, images, _ in perturbed], probes=True))
    seconds = time.monotonic() - start
    sample, image = asked[0]
    instances = len(natural_suite().instances(sample, read[0].prediction() or 0, (image,)))
    _say_answers(report, asked, read, others)
    _say_cost(report, vlm, len(read) + len(others), seconds, instances, n)
    _say_noise(report, read, others, [family for _, _, family in perturbed])
    _say_agreement(report, vlm, requests[:1], read[:1])
    return report


def _say_what_loaded(report: SelfCheck, name: str, vlm: VLM, seconds: float) -> None:
    spec, size = find(name), sum(parameter.numel() for parameter in vlm.model.parameters())
    whose = f", read with the settings of {spec.like}" if spec.like else ""
    about = vlm.describe()
    report.lines += [
        f"{name}: {vlm.name}{whose}, {vlm.model.config.model_type}, {size / 1e9:.3g} billion parameters",
        f"loaded in {seconds:.0f} s on {about['device']} as {about['dtype']}, attention {about['attention']}, "
        f"revision {vlm.revision or 'unknown'}, fingerprint {vlm.fingerprint}",
    ]
    if vlm.quantization:
        report.lines.append(f"quantised: {vlm.quantization}")
    if spec.path and spec.name in released():
        report.lines.append(
            f"taken for {spec.name} by its config: of fine-tuned weights the published values are others"
        )
    if spec.revision and vlm.revision and spec.revision != vlm.revision:
        report.lines.append(f"another revision than the one of params/models.yaml, {spec.revision}")


def _say_conversation(report: SelfCheck, vlm: VLM) -> None:
    """How a prompt ends, an answer begins and a turn is closed, in the model's own tokens."""
    sample, _ = pictures()[0]
    prompt = scored_prompt(sample, 1, vlm.processor, vlm.adapter.placeholder(vlm.processor))
    text = vlm.processor.tokenizer.decode
    answer = prompt.answers[0]
    before, said, end = (text(list(tokens)) for tokens in (prompt.tail, answer.text, answer.end))
    stops = sorted(end_tokens(vlm))
    report.lines += [
        f"before an answer: {before[-40:]!r}; an answer: {said!r}; end of the turn: {end!r}",
        f"generated answers stop at {', '.join(repr(text([token])) for token in stops)}",
    ]
    if not stops:
        report.wrong.append("no token stops a generated answer")
    if not answer.end:
        report.lines.append("no token ends a turn: an option's score is that of its text only")
    if not prompt.faithful:
        report.lines.append("the template opens an answered turn with other white space than the prompt it continues")


def _say_answers(report: SelfCheck, asked: Sequence, read: list[Readout], others: list[Readout]) -> None:
    right = sum(each.prediction() == sample.answer for (sample, _), each in zip(asked, read, strict=True))
    texts = "; ".join(repr(each.texts["open"]) for each in read)
    grids = {grid.shape[0] * grid.shape[1] for each in read for grid in each.vision}
    report.lines.append(f"answers: {right} of {len(read)} right; to the open question: {texts}")
    report.lines.append(f"tokens of a picture of {SIZE[0]} x {SIZE[1]} pixels: {', '.join(map(str, sorted(grids)))}")
    if not right:
        report.wrong.append("neither picture's color is answered right: a model that sees answers both")
    if any(not each.texts["open"] for each in read):
        report.wrong.append("an open question is answered with nothing: is the chat template the model's own?")
    long = [each for each in [*read, *others] if len(each.said["mcq"]) >= 30]
    if len(long) > len([*read, *others]) / 2:
        report.wrong.append(
            "most answers to the question with options run on to the limit: does the model stop at the end of its turn?"
        )


def _say_cost(report: SelfCheck, vlm: VLM, n_read: int, seconds: float, instances: int, n: int) -> None:
    each = seconds / n_read
    memory = ""
    if vlm.device.type == "cuda":
        memory = f"; memory at its highest {torch.cuda.max_memory_allocated() / 1e9:.1f} GB"
    hours = each * (1 + instances) * n / 3600
    report.lines.append(
        f"{each:.2g} s an instance with probes{memory}; a study of {n} samples with {instances} instances each would "
        f"take about {hours:.1f} hours"
    )


def _say_noise(report: SelfCheck, read: list[Readout], others: list[Readout], families: list[str]) -> None:
    """The same pixels read again, in another place of a batch."""
    again = [other for other, family in zip(others, families, strict=True) if family == "identity"]
    twins = list(zip(read, again, strict=True))
    worst = max(max(compare(one, other).values()) for one, other in twins)
    report.lines.append(f"noise floor (identity): numbers move by up to {worst:.2g} when read again")
    if any(one.prediction() != other.prediction() for one, other in twins):
        report.wrong.append(
            "the same pixels are answered differently when read again: near-ties, or too coarse a dtype"
        )


def _say_agreement(report: SelfCheck, vlm: VLM, requests: list[Request], read: list[Readout]) -> None:
    floor = max(rounding_floor(vlm, requests[0], read[0]).values())
    own = str(vlm.dtype).removeprefix("torch.")
    try:
        worst = verify(vlm, requests, read)
        report.lines.append(f"engine against oracle in {own}: {worst:.2g} (the model's own rounding: {floor:.2g})")
    except VerifyError as error:
        report.wrong.append(f"{error}")
    if vlm.dtype == torch.float32:
        return
    exact = exact_difference(vlm, requests[0])
    if exact is None:
        report.lines.append("engine against oracle in float32: not tried, the model does not fit in it here")
    else:
        report.lines.append(f"engine against oracle in float32: {exact:.1g}")
        if exact > TOLERANCE[torch.float32]:
            report.wrong.append(f"engine and oracle differ by {exact:.2g} in float32: the adapter does not fit")


def _good(results: Sequence[Readout | Exception]) -> list[Readout]:
    return list(_raised(results))


def _raised(results: Sequence[Readout | Exception]) -> Iterator[Readout]:
    for result in results:
        if isinstance(result, Exception):
            raise result
        yield result
