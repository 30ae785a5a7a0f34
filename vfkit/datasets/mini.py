"""The mini world's data sets: drawn scenes that no embedded model has seen, with answers known by construction.

All are drawn, not read: they take no path, and the same options give the same samples on every machine.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

from vfkit.datasets.base import Rows
from vfkit.images import to_png
from vfkit.mini import questions, world
from vfkit.sample import Sample

POPE_SPLITS = ("random", "popular", "adversarial")


def seed(path: None = None, size: int = 1000, world_seed: int = 0) -> Rows:
    """SEEDBench-like questions on held-out scenes: identity, attribute, location, counting, relation and reading as
    multiple choice, existence as yes/no; as many of each. `meta["n_things"]` says how many things a scene holds.

    Args:
        path: not used.
        size: how many questions there are.
        world_seed: of scenes and questions; another seed gives other questions from the same held-out scenes.

    Raises:
        ValueError: a size below 1, or a path.
    """
    _check(path, size)
    samples, scenes = [], {}
    for index in range(size):
        row_id = f"mini_seed/{world_seed}/{index}"
        rng, question = Random(row_id), None
        while question is None:
            scene = world.make_scene(rng, world.n_things(rng), held_out=True)
            question = questions.GENERATORS[questions.CATEGORIES[index % len(questions.CATEGORIES)]](scene, rng)
        samples.append(replace(questions.to_sample(row_id, (None,), question, rng), meta={"n_things": len(scene)}))
        scenes[row_id] = (scene,)
    return _drawn(samples, scenes)


def mmmu(path: None = None, size: int = 300, world_seed: int = 0) -> Rows:
    """MMMU-like questions about two held-out scenes, the images marked within the question: the colour of a thing in
    one of them (`lookup`), and which of them shows a thing (`which`).

    Args and errors as for `seed`.
    """
    _check(path, size)
    samples, scenes = [], {}
    for index in range(size):
        row_id = f"mini_mmmu/{world_seed}/{index}"
        rng, question = Random(row_id), None
        while question is None:
            pair = tuple(world.make_scene(rng, rng.randint(1, 2), held_out=True) for _ in range(2))
            question = questions.PAIRS[list(questions.PAIRS)[index % len(questions.PAIRS)]](*pair, rng)
        samples.append(questions.to_sample(row_id, (None, None), question, rng))
        scenes[row_id] = pair
    return _drawn(samples, scenes)


def pope(path: None = None, size: int = 60, split: str = "all", world_seed: int = 0) -> Rows:
    """POPE on held-out scenes of four things: for every image and split three things that are there and three that are
    not. Absent things are drawn at random, or are the most frequent ones of all images (popular), or those most often
    seen together with what the image shows (adversarial).

    Args:
        size: how many images there are; each has six questions a split.
        split: `random`, `popular`, `adversarial` or `all`; the sample's category says which it is of.
        path, world_seed: as for `seed`.

    Raises:
        ValueError: a size below 1, a path, or an unknown split.
    """
    _check(path, size)
    if split not in (*POPE_SPLITS, "all"):
        raise ValueError(f"mini_pope has no split {split!r}; there are {', '.join(POPE_SPLITS)} and all")
    rngs = [Random(f"mini_pope/{world_seed}/{index}") for index in range(size)]
    shown = [_several_kinds(rng) for rng in rngs]
    kinds = [sorted({thing.kind for thing in scene} - {"sign"}) for scene in shown]
    frequency = Counter(kind for each in kinds for kind in each)
    together = Counter(pair for each in kinds for one in combinations(each, 2) for pair in (one, one[::-1]))
    samples, scenes = [], {}
    for index, (rng, scene, present) in enumerate(zip(rngs, shown, kinds, strict=True)):
        absent = [kind for kind in world.KINDS if kind not in present]
        rng.shuffle(absent)
        ranked = {
            "random": absent,
            "popular": sorted(absent, key=lambda kind: -frequency[kind]),
            "adversarial": sorted(absent, key=lambda kind: -sum(together[kind, other] for other in present)),  # noqa: B023
        }
        there = rng.sample(present, 3)
        for name in POPE_SPLITS if split == "all" else (split,):
            for number, kind in enumerate([*there, *ranked[name][:3]]):
                row_id = f"mini_pope/{world_seed}/{name}/{index}/{number}"
                sample = questions.to_sample(row_id, (None,), questions.is_there(kind, number < 3), rng)
                meta = {"question_id": row_id, "object": kind, "image": f"{world_seed}/{index}"}
                samples.append(replace(sample, category=name, meta=meta))
                scenes[row_id] = (scene,)
    return _drawn(samples, scenes, lambda sample: sample.meta["image"])


def vfat(path: None = None, size: int = 60, world_seed: int = 0, baseline: bool = False, asks: str = "all") -> Rows:
    """V-FAT on held-out scenes: what is usual of an object in the mini world, against what is seen (VF 3).

    Items ask for the colour of an object that has a typical one (`color`), or for the thing beside an object that has
    a usual companion (`companion`). L1 shows what is unusual; the trap is the usual answer. L2 shows what is usual and
    asserts something else. L3 shows what L1 shows and asserts the usual answer. Each as multiple choice and as an open
    question. The category is the object, six in all. `meta` holds item, level, format, truth, trap, aliases,
    trap_aliases, and `asks`.

    Args:
        size: how many items there are; each gives six samples.
        baseline: also L0, the neutral prompt on the ordinary image.
        asks: `color`, `companion`, or `all`: six items of the one, then six of the other.
        path, world_seed: as for `seed`.

    Raises:
        ValueError: a size below 1, a path, or `asks` that is none of these.
    """
    _check(path, size)
    if asks not in (*_CONFLICTS, "all"):
        raise ValueError(f"mini_vfat has no items that ask {asks!r}; there are {', '.join(_CONFLICTS)} and all")
    samples, scenes = [], {}
    for index in range(size):
        item = f"mini_vfat/{world_seed}/{index}"
        kind = list(world.OBJECTS)[index % len(world.OBJECTS)]
        about = list(_CONFLICTS)[index // len(world.OBJECTS) % len(_CONFLICTS)] if asks == "all" else asks
        odd, ordinary, ask = _CONFLICTS[about](kind, Random(item))
        for level, scene, other in (
            *([("L0", ordinary, odd)] if baseline else []),
            ("L1", odd, ordinary),
            ("L2", ordinary, odd),
            ("L3", odd, ordinary),
        ):
            question, trap = ask(scene, Random(item)), ask(other, Random(item)).truth
            hint = "" if level in ("L0", "L1") else questions.assertion(question.text, trap)
            wrong = [value for value in question.others if value != trap]
            Random(item).shuffle(wrong)
            for form in ("mcq", "oe"):
                row_id = f"{item}/{level}/{form}"
                options = [question.truth, trap] + wrong[: 2 * (form == "mcq")]
                Random(f"{item}/{form}").shuffle(options)
                meta: dict[str, Any] = {"item": item, "level": level, "format": form, "truth": question.truth}
                meta |= {"trap": trap, "aliases": [], "trap_aliases": [], "asks": about}
                samples.append(
                    Sample(
                        row_id, (None,), question.text, tuple(options), options.index(question.truth), kind, hint=hint,
                        prompt="mcq" if form == "mcq" else "open", meta=meta,
                    )
                )  # fmt: skip
                scenes[row_id] = (scene,)
    return _drawn(samples, scenes, lambda sample: f"{sample.meta['item']}/{sample.meta['level'] in ('L0', 'L2')}")


# --- scenes -----------------------------------------------------------------------------------------------------------


def _several_kinds(rng: Random) -> world.Scene:
    while True:
        scene = world.make_scene(rng, len(world.PLACES), held_out=True)
        if len({thing.kind for thing in scene} - {"sign"}) >= 3:
            return scene


Conflict = tuple[world.Scene, world.Scene, Callable[[world.Scene, Random], questions.Question]]


def _two_colors(kind: str, rng: Random) -> Conflict:
    """A scene with an object of an untypical colour, the same with its typical colour, and the question for it."""
    while True:
        color = rng.choice([color for color in world.COLORS if color != world.OBJECTS[kind]])
        others = [
            thing for thing in world.make_scene(rng, 2, held_out=False)[: rng.randint(0, 1)] if thing.kind != kind
        ]
        place = rng.choice([place for place in world.PLACES if place not in [thing.place for thing in others]])
        odd, ordinary = ((world.Thing(kind, each, place), *others) for each in (color, world.OBJECTS[kind]))
        if world.is_held_out(odd) and world.is_held_out(ordinary):
            return odd, ordinary, lambda scene, rng: questions.color_question(scene[0], scene, rng)


def _two_companions(kind: str, rng: Random) -> Conflict:
    """A scene with an object beside another thing than its companion, the same with its companion, and the question
    for what is there. A third thing stands elsewhere."""
    usual, at = world.COMPANION[kind], rng.choice(world.PLACES)
    words, place = rng.choice(list(questions.neighbours(at).items()))
    thing = world.Thing(kind, world.OBJECTS[kind], at)
    while True:
        elsewhere = rng.choice([each for each in world.PLACES if each not in (at, place)])
        stranger, third = rng.sample([other for other in world.KINDS if other not in (kind, usual)], 2)
        rest = world.Thing(third, world.color_of(third, rng, world.TYPICAL), elsewhere)
        odd, ordinary = (
            (thing, world.Thing(other, world.color_of(other, rng, world.TYPICAL), place), rest)
            for other in (stranger, usual)
        )
        if world.is_held_out(odd) and world.is_held_out(ordinary):
            return odd, ordinary, lambda scene, _: questions.relation_question(words, scene[0], scene[1], scene)


_CONFLICTS = {"color": _two_colors, "companion": _two_companions}


def _check(path: None, size: int) -> None:
    if path is not None:
        raise ValueError("the mini world's data sets are drawn, not read: they take no path")
    if size < 1:
        raise ValueError(f"size is {size}; at least one question must be made")


def _drawn(samples: list[Sample], scenes: dict[str, tuple], image: Callable[[Sample], str] = lambda s: s.id) -> Rows:
    """Rows whose images are drawn when chosen; samples with the same `image` name show the same pixels."""

    def draw(sample: Sample) -> Sample:
        rng = Random(image(sample))
        return replace(sample, images=tuple(to_png(world.render(scene, rng)) for scene in scenes[sample.id]))

    return Rows(samples, finish=draw)
