"""Questions about scenes of the mini world, each with its right answer and the wrong ones of the same kind.

A generator takes (scene, rng) and returns a `Question`, or None if the scene allows no single right answer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Literal

from vfkit.mini.world import COLORS, KINDS, OBJECTS, PLACES, WORDS, Scene, Thing
from vfkit.sample import Sample

N_OPTIONS = 4


@dataclass(frozen=True)
class Question:
    """A question and its answers: `others` are the wrong answers of the truth's kind, `likely` those of them that
    the scene suggests; `about` is the thing whose colour is asked for, if any."""

    category: str
    text: str
    truth: str
    others: tuple[str, ...]
    likely: tuple[str, ...] = ()
    about: Thing | None = None


Generator = Callable[[Scene, Random], Question | None]


def _ask(category: str, text: str, truth: str, pool: Iterable[str], likely=(), about: Thing | None = None) -> Question:
    others = tuple(value for value in pool if value != truth)
    likely = tuple(dict.fromkeys(value for value in likely if value in others))
    return Question(category, text, truth, others, likely, about)


def _coloured(scene: Scene) -> list[Thing]:
    return [thing for thing in scene if thing.kind != "sign"]


def _unique(scene: Scene, *attributes: str) -> list[Thing]:
    """Coloured things that share the values of these attributes with no other."""
    values = [[getattr(thing, attribute) for attribute in attributes] for thing in _coloured(scene)]
    return [thing for thing, value in zip(_coloured(scene), values, strict=True) if values.count(value) == 1]


# --- SEEDBench-like categories ----------------------------------------------------------------------------------------


def identity(scene: Scene, rng: Random) -> Question | None:
    things = _unique(scene, "color")
    if not things:
        return None
    thing = rng.choice(things)
    texts = [f"What is {thing.color} in the image?", f"Which object is {thing.color}?"]
    if len(scene) == 1:
        texts.append("What is in the image?")
    return _ask("identity", rng.choice(texts), thing.kind, KINDS, [other.kind for other in scene])


def attribute(scene: Scene, rng: Random) -> Question | None:
    things = _unique(scene, "kind")
    return color_question(rng.choice(things), scene, rng) if things else None


def color_question(thing: Thing, scene: Scene, rng: Random) -> Question:
    """Ask for a thing's colour; its typical colour is among the likely wrong answers."""
    texts = [f"What color is the {thing.kind}?", f"What is the color of the {thing.kind}?"]
    likely = [OBJECTS.get(thing.kind), *(other.color for other in scene)]
    return _ask("attribute", rng.choice(texts), thing.color, COLORS, likely, thing)


def location(scene: Scene, rng: Random) -> Question | None:
    things = _unique(scene, "kind", "color")
    if not things:
        return None
    thing = rng.choice(things)
    texts = [f"Where is the {thing}?", f"In which corner is the {thing}?"]
    return _ask("location", rng.choice(texts), thing.place, PLACES)


def counting(scene: Scene, rng: Random) -> Question:
    texts = ["How many things are there?", "How many things are in the image?"]
    return _ask("counting", rng.choice(texts), str(len(scene)), [str(n + 1) for n in range(len(PLACES))])


_BESIDE = {
    "left of": ("right", "left"), "right of": ("left", "right"), "above": ("bottom", "top"), "below": ("top", "bottom"),
}  # fmt: skip


def neighbours(place: str) -> dict[str, str]:
    """Return the places directly beside one, by the words that say where they are seen from it."""
    return {words: place.replace(here, there) for words, (here, there) in _BESIDE.items() if here in place}


def relation(scene: Scene, rng: Random) -> Question | None:
    """Ask which thing is directly left of, right of, above or below another."""
    candidates = [
        (words, thing, other)
        for thing in _unique(scene, "kind", "color")
        for words, place in neighbours(thing.place).items()
        for other in scene
        if other.place == place
    ]
    return relation_question(*rng.choice(candidates), scene) if candidates else None


def relation_question(words: str, thing: Thing, other: Thing, scene: Scene) -> Question:
    """Ask what is `words` (left of, right of, above, below) a thing; the truth is `other`."""
    text, kinds = f"What is {words} the {thing}?", [each.kind for each in scene]
    return _ask("relation", text, other.kind, (*KINDS, "sign"), kinds)


def reading(scene: Scene, rng: Random) -> Question | None:
    signs = [thing for thing in scene if thing.kind == "sign"]
    if len(signs) != 1:
        return None
    return _ask("reading", rng.choice(["What does the sign say?", "Which word is on the sign?"]), signs[0].color, WORDS)


def existence(scene: Scene, rng: Random) -> Question:
    """Ask yes or no; half of the absent things share a colour or a kind with a thing in the scene."""
    truth = rng.random() < 0.5
    things = _coloured(scene)
    present = {str(thing) for thing in things}
    by = rng.choice(["thing", "kind", "color"])
    if by == "thing":
        near = [f"{a.color} {kind}" for a in things for kind in KINDS] + [
            f"{c} {a.kind}" for a in things for c in COLORS
        ]
        anything = [f"{color} {kind}" for color in COLORS for kind in KINDS]
        absent = [name for name in (near if rng.random() < 0.5 else anything) if name not in present]
        name = rng.choice(sorted(present) if truth else absent)
    else:
        pool = KINDS if by == "kind" else tuple(COLORS)
        seen = sorted({getattr(thing, by) for thing in things})
        name = rng.choice(seen if truth else [value for value in pool if value not in seen])
        name += " thing" * (by == "color")
    return is_there(name, truth)


def is_there(name: str, truth: bool) -> Question:
    """Ask POPE's question about a thing."""
    article = "an" if name[0] in "aeiou" else "a"
    return _ask("existence", f"Is there {article} {name} in the image?", ("No", "Yes")[truth], ("Yes", "No"))


GENERATORS: dict[str, Generator] = {
    "identity": identity, "attribute": attribute, "location": location, "counting": counting, "relation": relation,
    "reading": reading, "existence": existence,
}  # fmt: skip
CATEGORIES = tuple(GENERATORS)


# --- two images -------------------------------------------------------------------------------------------------------


def lookup(first: Scene, second: Scene, rng: Random) -> Question | None:
    """Ask for the colour of a thing in one of two images."""
    number, scene = rng.choice([(1, first), (2, second)])
    things = _unique(scene, "kind")
    if not things:
        return None
    thing = rng.choice(things)
    likely = [other.color for other in first + second]
    return _ask("lookup", f"What color is the {thing.kind} in <image {number}>?", thing.color, COLORS, likely)


def which(first: Scene, second: Scene, rng: Random) -> Question | None:
    """Ask which of two images shows a thing."""
    here = {str(thing) for thing in _coloured(first)}
    there = {str(thing) for thing in _coloured(second)}
    pools = [(sorted(here - there), "only the first"), (sorted(there - here), "only the second")]
    pools += [(sorted(here & there), "both images")]
    pools += [([f"{rng.choice(list(COLORS))} {rng.choice(KINDS)}"], "neither image")]
    pools = [(names, truth) for names, truth in pools if names and not (truth[0] == "n" and names[0] in here | there)]
    if not pools:
        return None
    names, truth = rng.choice(pools)
    text = f"Which of <image 1> and <image 2> shows a {rng.choice(names)}?"
    return _ask("which", text, truth, ("only the first", "only the second", "both images", "neither image"))


PAIRS: dict[str, Callable[..., Question | None]] = {"lookup": lookup, "which": which}


# --- hints ------------------------------------------------------------------------------------------------------------


def assertion(question: str, answer: str) -> str:
    """Return a statement that answers a question: `The banana is blue.` for a question about a colour."""
    kind = next((kind for kind in KINDS if question.endswith(f" the {kind}?")), None)
    asks_color = kind and question.startswith(("What color", "What is the color"))
    return f"The {kind} is {answer}." if asks_color else f"The answer is {answer}."


# --- samples ----------------------------------------------------------------------------------------------------------


def to_sample(sample_id: str, images: tuple, question: Question, rng: Random, n_options: int = N_OPTIONS) -> Sample:
    """Make a sample with its options in seeded order; yes/no questions keep Yes first."""
    if question.truth in ("Yes", "No"):
        options = ["Yes", "No"]
    else:
        likely = [other for other in question.likely if rng.random() < 0.7]
        rest = [other for other in question.others if other not in likely]
        wrong = (likely + rng.sample(rest, len(rest)))[: n_options - 1]
        rng.shuffle(wrong)
        place = rng.randrange(len(wrong) + 1)
        options = [*wrong[:place], question.truth, *wrong[place:]]
    truth = options.index(question.truth)
    prompt: Literal["yes_no", "mcq"] = "yes_no" if options == ["Yes", "No"] else "mcq"
    return Sample(sample_id, images, question.text, tuple(options), truth, question.category, prompt=prompt)
