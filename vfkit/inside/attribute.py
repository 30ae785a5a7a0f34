"""A sample's rows: what its base and its perturbed instances are inside, and what edits of them do (METHODS 16)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from vfkit.inside.attention import entropy, shares
from vfkit.inside.layers import Edit, Knockout, Patch, text_layers
from vfkit.inside.passes import Reading, batches, edited_scores, read_scenes
from vfkit.inside.scene import make_scene, random_tokens, region
from vfkit.inside.sensitivity import linear_radius, pixel_distance
from vfkit.perturb import frequency
from vfkit.readout import rules
from vfkit.sample import Instance, Sample

DROP = 1.0  # nats by which the base-label margin must fall for its restoration to be measured
KINDS = ("layers", "lens", "edits", "attention", "radius")  # kinds of rows
Rows = dict[str, list[dict[str, Any]]]


class Asked(NamedTuple):
    """What is measured.

    Args:
        rule: scoring rule.
        measures: of `vfkit.inside.MEASURES`.
        layers: whose states are read and patched, 0 to the number of layers; None takes all.
        window: layers in which tokens are hidden together; None takes a third of them.
        batch_tokens: of one batch.
    """

    rule: str
    measures: tuple[str, ...]
    layers: tuple[int, ...] | None = None
    window: int | None = None
    batch_tokens: int = 8192

    def chosen(self, n: int) -> list[int]:
        """The layers among 0 ... n (n: before the final norm).

        Raises:
            ValueError: one of them does not exist.
        """
        wanted = range(n + 1) if self.layers is None else self.layers
        if beyond := [layer for layer in wanted if not 0 <= layer <= n]:
            raise ValueError(f"the model has layers 0 to {n - 1} (and {n}: before the final norm), not {beyond[0]}")
        return sorted(set(wanted))

    def windows(self, n: int) -> list[range]:
        """All n layers together and, where there are several, the windows."""
        step = self.window or -(-n // 3)
        parts = [range(start, min(start + step, n)) for start in range(0, n, step)]
        return [range(n), *parts] if len(parts) > 1 else [range(n)]


def forward_rows_asked(asked: Asked, n_layers: int, instances: int, controls: int) -> dict[str, int]:
    """Rows that are read for one sample, at most: each costs about as much as one ordinary readout without probes.

    Args:
        instances: perturbed ones. controls: control images.
    """
    patched = sum(layer < n_layers for layer in asked.chosen(n_layers))
    forward, windows = 1 + instances, len(asked.windows(n_layers))
    rows = {
        "states": forward + controls,
        "lens": forward,
        "patching": instances * (2 + patched * (4 + 4 + 3 + 4)),
        "knockout": instances * (2 + 3 * windows + 2),
        "attention": forward,
        "radius": 3,  # a pass with a gradient
    }
    return {measure: rows[measure] for measure in asked.measures}


def attribute(
    vlm,
    sample: Sample,
    images: Sequence[Image.Image],
    prediction: int,
    instances: Sequence[Instance],
    controls: Sequence[Instance],
    asked: Asked,
) -> Rows:
    """Measure one sample.

    Args:
        images: of its base; prediction: the option that its base predicts.
        instances: perturbed ones, all applicable.
        controls: the same question on control images.

    Returns:
        Rows by kind (`vfkit.study.schema` names their columns), without the sample's id.
    """
    rows: Rows = {kind: [] for kind in KINDS}
    base_scene = make_scene(vlm, sample, images)
    if "radius" in asked.measures:
        rows["radius"].append(linear_radius(vlm, base_scene, asked.rule))
    if not {"states", "lens", "patching", "knockout", "attention"} & set(asked.measures):
        return rows
    others = [make_scene(vlm, sample, one.images) for one in controls]
    scenes = [make_scene(vlm, sample, one.images) for one in instances]
    (base,) = _read(vlm, [base_scene], asked)
    donor = None
    for one, reading in zip(controls, _read(vlm, others, asked), strict=True):
        if "states" in asked.measures:
            rows["layers"] += _moves(base, reading, {}, one, asked)
        if donor is None and base.keeps_grid(reading):
            donor = reading
    own = Instance("base", "base", {}, base_scene.images)
    rows["lens"] += _margins(base, own, prediction, asked)
    rows["attention"] += _attention(base, base, [], own, asked)
    for one, reading in zip(instances, _read(vlm, scenes, asked), strict=True):
        where = region(base_scene.images, one.images, base.boxes) if base.keeps_grid(reading) else []
        shown = [base.places["image"][token] for token in where]
        if "states" in asked.measures:
            rows["layers"] += _moves(base, reading, {"region": shown} if shown else {}, one, asked)
        rows["lens"] += _margins(reading, one, prediction, asked)
        rows["attention"] += _attention(reading, base, shown, one, asked)
        if {"patching", "knockout"} & set(asked.measures):
            rows["edits"] += _edits(vlm, base, reading, donor, shown, one, prediction, asked)
    return rows


def _read(vlm, scenes: list, asked: Asked) -> Iterator[Reading]:
    """Readings one batch at a time, so that only one batch's states are held."""
    what = {"lens": "lens" in asked.measures, "attention": "attention" in asked.measures}
    for batch in batches(scenes, asked.batch_tokens):
        yield from read_scenes(vlm, batch, asked.rule, **what, batch_tokens=asked.batch_tokens)


# --- states, margins, attention ---------------------------------------------------------------------------------------


def _moves(base: Reading, other: Reading, more: dict[str, list[int]], one: Instance, asked: Asked) -> list[dict]:
    """How far states are from the base's, by layer and place; before a DeepStack addition too, at image tokens."""
    aligned = base.keeps_grid(other)
    pixels = pixel_distance(base.scene.images, one.images)
    taps = list(zip(base.states.before, other.states.before, strict=True))
    chosen = asked.chosen(len(taps) - 1)
    points = [(layer, "state", *taps[layer]) for layer in chosen]
    early = enumerate(zip(base.states.after, other.states.after, strict=True), start=1)
    points += [(layer, "before DeepStack", *pair) for layer, pair in early if layer in chosen]
    rows = []
    for layer, point, first, second in points:
        for place in ("image", *more) if point != "state" else ("image", *more, "question", "answer"):
            here, there = more.get(place, base.places.get(place, [])), more.get(place, other.places.get(place, []))
            if here and there:
                whole = aligned or place in ("question", "answer")
                row = {"family": one.family, "instance": one.name, "layer": layer, "point": point, "place": place}
                row |= {"n_tokens": len(there), "pixels_l2": pixels}
                rows.append(row | _distances(first[here].float(), second[there].float(), whole))
    return rows


def _distances(first: Float[Tensor, "a channel"], second: Float[Tensor, "b channel"], aligned: bool) -> dict:
    """Distances of the mean states and, token by token, of all of them: the mean cosine distance, the L2 norm."""
    one, two = first.mean(0, keepdim=True), second.mean(0, keepdim=True)
    row = {"cos": _cosine(one, two), "l2": float((two - one).norm())}
    if aligned:
        row["cos_tokens"] = _cosine(first, second)
        row["l2_tokens"] = float((second - first).norm())
    return row


def _cosine(first: Float[Tensor, "token channel"], second: Float[Tensor, "token channel"]) -> float:
    """Mean cosine distance of pairs of states; exactly 0 where they are the same, whatever rounding does."""
    same = (first == second).all(dim=1)
    apart = (1 - torch.cosine_similarity(first.double(), second.double(), dim=1)).clamp(min=0)
    return float(apart.masked_fill(same, 0).mean())


def _margins(reading: Reading, one: Instance, prediction: int, asked: Asked) -> list[dict]:
    """The lens: base-label margin and prediction by layer."""
    if "lens" not in asked.measures:
        return []
    who = {"family": one.family, "instance": one.name}
    return [who | {"layer": layer} | _answer(reading.scores[layer], prediction) for layer in range(len(reading.scores))]


def _answer(scores, prediction: int) -> dict[str, float | int]:
    """Base-label margin and predicted option of scores [option]."""
    return {"base_margin": rules.margins(scores, prediction)[1], "prediction": rules.predict(scores)[0]}


def _attention(reading: Reading, base: Reading, shown: list[int], one: Instance, asked: Asked) -> list[dict]:
    """Attention of the answer position by layer; on the region also in the base, where nothing is there to see."""
    rows = []
    for layer, weights in enumerate(reading.attention):
        if layer in asked.chosen(len(reading.attention)):
            row: dict[str, Any] = {"family": one.family, "instance": one.name, "layer": layer}
            row |= shares(weights, reading.places | {"first": [0]} | ({"region": shown} if shown else {}))
            row |= shares(base.attention[layer], {"region_base": shown} if shown else {})
            rows.append(
                row | {"entropy": entropy(weights), "n_image": len(reading.places["image"]), "n_region": len(shown)}
            )
    return rows


# --- edits ------------------------------------------------------------------------------------------------------------


def _edits(
    vlm,
    base: Reading,
    other: Reading,
    donor: Reading | None,
    shown: list[int],
    one: Instance,
    prediction: int,
    asked: Asked,
) -> list[dict]:
    """Rows of patches and knockouts of one instance; where one does not apply, a row that says why."""
    who: dict[str, Any] = {"family": one.family, "instance": one.name}
    margin = {name: rules.margins(each.scores[-1], prediction)[1] for name, each in (("base", base), ("other", other))}
    who |= {"margin_base": margin["base"], "margin_perturbed": margin["other"]}
    draw = frequency.generator(f"inside/{base.scene.question.sample.id}/{one.name}")
    n = len(text_layers(vlm))
    plan: list[tuple[str, dict, Edit]] = []
    rows = []
    if "patching" in asked.measures:
        reason = _unpatchable(base, other, margin["base"] - margin["other"])
        plan += [] if reason else _patches(base, other, donor, shown, draw, [k for k in asked.chosen(n) if k < n])
        rows += [who | {"kind": "patch", "reason": reason}] if reason else []
    if "knockout" in asked.measures:
        reason = "" if shown else "what changed is not in one region of the image"
        plan += [] if reason else _knockouts(base, shown, draw, asked.windows(n))
        rows += [who | {"kind": "knockout", "reason": reason}] if reason else []
    for into, reading in (("perturbed", other), ("base", base)):
        todo = [(row, edit) for where, row, edit in plan if where == into]
        if todo:
            edits = [edit for _, edit in todo]
            scores = edited_scores(vlm, reading.scene, edits, asked.rule, asked.batch_tokens)
            for (row, _), values in zip(todo, scores, strict=True):
                rows.append(who | {"into": into, "reason": ""} | row | _answer(values, prediction))
    return rows


def _unpatchable(base: Reading, other: Reading, drop: float) -> str:
    if not base.keeps_grid(other):
        return "its image tokens are on another grid"
    return "" if drop >= DROP else f"its margin fell by less than {DROP:g} nat"


def _patches(
    base: Reading, other: Reading, donor: Reading | None, shown: list[int], draw, layers: list[int]
) -> Iterator[tuple[str, dict, Edit]]:
    """(into, row, edit) of every layer and place: base states into the perturbed run, the perturbed into the base, and
    the controls: another image's states, and base states at as many random tokens."""
    image, question, answer = (other.places[name] for name in ("image", "question", "answer"))
    places = {"image": image} | ({"region": shown} if shown else {}) | {"question": question, "answer": answer}
    outside = {"region": sorted(set(image) - set(shown)), "question": image, "answer": image + question, "image": []}
    for place, tokens in places.items():
        chance = random_tokens(outside[place], len(tokens), draw)
        for layer in layers:
            row = {"kind": "patch", "layer": layer, "last": layer, "place": place, "n_tokens": len(tokens)}
            yield "perturbed", row | {"donor": "base"}, Patch(layer, tokens, base.states)
            yield "base", row | {"donor": "perturbed"}, Patch(layer, tokens, other.states)
            if donor is not None:
                yield "perturbed", row | {"donor": "other image"}, Patch(layer, tokens, donor.states)
            if chance:
                yield "perturbed", row | {"donor": "random tokens"}, Patch(layer, chance, base.states)


def _knockouts(base: Reading, shown: list[int], draw, windows: list[range]) -> Iterator[tuple[str, dict, Edit]]:
    """(into, row, edit) of every window: the region hidden, as many random image tokens, and the whole image; the first
    two also in the base run, in all layers."""
    image = base.places["image"]
    chance = random_tokens(sorted(set(image) - set(shown)), len(shown), draw)
    for place, tokens in (("region", shown), ("random tokens", chance), ("image", image)):
        for window in windows:
            row = {"kind": "knockout", "layer": window[0], "last": window[-1], "place": place, "n_tokens": len(tokens)}
            yield "perturbed", row, Knockout(tokens, window)
            if place != "image" and len(window) == len(windows[0]):
                yield "base", row, Knockout(tokens, window)
