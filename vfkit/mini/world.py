"""The mini world: scenes of coloured shapes with questions whose answers are known by construction.

Everything is a pure function of a seed. A scene's *signature* (which shapes, colours and places it holds) decides by
hash whether it belongs to training or to the held-out split, so no held-out scene is ever trained on.
"""

import hashlib
from dataclasses import dataclass, replace
from random import Random

from PIL import Image, ImageDraw

from vfkit.perturb.overlay import text_overlay
from vfkit.sample import Sample

SIDE = 256  # pixels of a rendered scene
COLORS = {
    "red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0), "teal": (0, 128, 128),
    "brown": (165, 42, 42), "gray": (128, 128, 128), "black": (0, 0, 0), "purple": (150, 0, 200),
    "orange": (255, 140, 0),
}  # fmt: skip
SHAPES = ("circle", "rectangle", "triangle", "star", "cross", "ring")
PLACES = ("top left", "top right", "bottom left", "bottom right")
HELD_OUT = 10  # one signature in this many is held out


@dataclass(frozen=True)
class Thing:
    shape: str
    color: str
    place: str

    def __str__(self) -> str:
        return f"{self.color} {self.shape}"


Scene = tuple[Thing, ...]


# --- scenes -----------------------------------------------------------------------------------------------------------


def is_held_out(scene: Scene) -> bool:
    signature = "|".join(sorted(f"{thing}@{thing.place}" for thing in scene))
    return int(hashlib.sha256(signature.encode()).hexdigest(), 16) % HELD_OUT == 0


def make_scene(rng: Random, n_things: int, held_out: bool) -> Scene:
    """A scene of one to four things, one a place, from the wanted side of the split."""
    while True:
        places = rng.sample(PLACES, n_things)
        scene = tuple(Thing(rng.choice(SHAPES), rng.choice(list(COLORS)), place) for place in places)
        if is_held_out(scene) == held_out:
            return scene


def render(scene: Scene, rng: Random) -> Image.Image:
    """Draw a scene as a SIDE x SIDE image; position in the quadrant, size, hue and background vary with `rng`."""
    background = tuple(rng.randint(225, 255) for _ in range(3))
    image = Image.new("RGB", (SIDE, SIDE), background)
    draw = ImageDraw.Draw(image)
    for thing in scene:
        radius = rng.uniform(20, 46)
        low, high = radius + 4, SIDE / 2 - radius - 4
        x, y = (rng.uniform(low, high) for _ in range(2))
        x += SIDE / 2 * thing.place.endswith("right")
        y += SIDE / 2 * thing.place.startswith("bottom")
        color = tuple(min(255, max(0, part + rng.randint(-15, 15))) for part in COLORS[thing.color])
        _draw(draw, thing.shape, x, y, radius, color, rng)
    return image


def _draw(draw, shape, x, y, r, color, rng: Random) -> None:
    if shape == "circle":
        draw.ellipse((x - r, y - r, x + r, y + r), fill=color)
    elif shape == "ring":
        draw.ellipse((x - r, y - r, x + r, y + r), outline=color, width=round(r * 0.35))
    elif shape == "rectangle":
        w, h = r * rng.uniform(0.7, 1.0), r * rng.uniform(0.7, 1.0)
        draw.rectangle((x - w, y - h, x + w, y + h), fill=color)
    elif shape == "triangle":
        draw.polygon([(x, y - r), (x - r, y + r * 0.75), (x + r, y + r * 0.75)], fill=color)
    elif shape == "cross":
        w = r * 0.32
        draw.rectangle((x - w, y - r, x + w, y + r), fill=color)
        draw.rectangle((x - r, y - w, x + r, y + w), fill=color)
    elif shape == "star":
        draw.regular_polygon((x, y, r * 0.9), 3, rotation=0, fill=color)
        draw.regular_polygon((x, y, r * 0.9), 3, rotation=180, fill=color)


def caption(scene: Scene) -> str:
    """Every thing with its place, in reading order."""
    return ", ".join(f"{thing} {thing.place}" for thing in sorted(scene, key=lambda thing: PLACES.index(thing.place)))


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    category: str
    text: str
    truth: str
    others: tuple[str, ...]  # every wrong answer of the same kind
    likely: tuple[str, ...] = ()  # wrong answers that the scene itself suggests


def _unique(scene: Scene, attribute: str) -> list[Thing]:
    """Things that are the only ones with their shape (or colour)."""
    values = [getattr(thing, attribute) for thing in scene]
    return [thing for thing, value in zip(scene, values, strict=True) if values.count(value) == 1]


def _ask(category, text, truth, pool, likely=()) -> Question:
    others = tuple(value for value in pool if value != truth)
    return Question(category, text, truth, others, tuple(dict.fromkeys(value for value in likely if value in others)))


def identity(scene: Scene, rng: Random) -> Question | None:
    things = _unique(scene, "color")
    if not things:
        return None
    thing = rng.choice(things)
    texts = [f"What shape is the {thing.color} object?", f"Which shape is {thing.color}?"]
    if len(scene) == 1:
        texts.append("What shape is in the image?")
    return _ask("identity", rng.choice(texts), thing.shape, SHAPES, [other.shape for other in scene])


def attribute(scene: Scene, rng: Random) -> Question | None:
    things = _unique(scene, "shape")
    if not things:
        return None
    thing = rng.choice(things)
    texts = [f"What color is the {thing.shape}?", f"What is the color of the {thing.shape}?"]
    return _ask("attribute", rng.choice(texts), thing.color, COLORS, [other.color for other in scene])


def location(scene: Scene, rng: Random) -> Question | None:
    things = [thing for thing in scene if [str(other) for other in scene].count(str(thing)) == 1]
    if not things:
        return None
    thing = rng.choice(things)
    texts = [f"Where is the {thing}?", f"In which corner is the {thing}?"]
    return _ask("location", rng.choice(texts), thing.place, PLACES)


def counting(scene: Scene, rng: Random) -> Question:
    texts = ["How many shapes are there?", "How many objects are in the image?"]
    return _ask("counting", rng.choice(texts), str(len(scene)), [str(n + 1) for n in range(len(PLACES))])


def existence(scene: Scene, rng: Random, truth: bool | None = None) -> Question:
    """Yes/no; half of the absent things share a colour or a shape with a thing that is there."""
    truth = rng.random() < 0.5 if truth is None else truth
    present = {str(thing) for thing in scene}
    by = rng.choice(["thing", "shape", "color"])
    if by == "thing":
        absent = [f"{color} {shape}" for color in COLORS for shape in SHAPES if f"{color} {shape}" not in present]
        near = [f"{a.color} {shape}" for a in scene for shape in SHAPES if f"{a.color} {shape}" not in present]
        name = rng.choice(sorted(present)) if truth else rng.choice(near if rng.random() < 0.5 else absent)
    elif by == "shape":
        seen = {thing.shape for thing in scene}
        name = rng.choice(sorted(seen)) if truth else rng.choice([shape for shape in SHAPES if shape not in seen])
    else:
        seen = {thing.color for thing in scene}
        color = rng.choice(sorted(seen)) if truth else rng.choice([color for color in COLORS if color not in seen])
        name = f"{color} object"
    article = "an" if name[0] in "aeiou" else "a"
    answers = ("Yes", "No")
    return _ask("existence", f"Is there {article} {name} in the image?", answers[not truth], answers)


GENERATORS = {
    "identity": identity, "attribute": attribute, "location": location, "counting": counting, "existence": existence,
}  # fmt: skip
CATEGORIES = tuple(GENERATORS)


def to_sample(id: str, image, question: Question, rng: Random, n_options: int = 4) -> Sample:
    """A question with its options in seeded order; yes/no questions keep Yes first."""
    if question.truth in ("Yes", "No"):
        options, prompt = ["Yes", "No"], "yes_no"
    else:
        likely = [other for other in question.likely if rng.random() < 0.7]
        rest = [other for other in question.others if other not in likely]
        wrong = (likely + rng.sample(rest, len(rest)))[: n_options - 1]
        rng.shuffle(wrong)
        place = rng.randrange(len(wrong) + 1)
        options, prompt = [*wrong[:place], question.truth, *wrong[place:]], "mcq"
    truth = options.index(question.truth)
    return Sample(id, (image,), question.text, tuple(options), truth, question.category, prompt=prompt)


def n_things(rng: Random) -> int:
    """Scenes of one or two things are the most frequent: they are learned first and asked most."""
    return rng.choices((1, 2, 3, 4), weights=(40, 30, 20, 10))[0]


def text_card(image: Image.Image, label: str) -> Image.Image:
    """The image with a card that names an answer: the planted reason why overlays persuade."""
    return text_overlay(image, f"Answer is {label}")


def held_out(index: int, seed: int = 0) -> tuple[Scene, Sample]:
    """Question `index` of the held-out data set (categories in turn) and the scene it is about, not drawn yet."""
    rng = Random(f"mini_seed/{seed}/{index}")
    generator = GENERATORS[CATEGORIES[index % len(CATEGORIES)]]
    question = None
    while question is None:  # two things alike leave some questions without a single answer
        scene = make_scene(rng, n_things(rng), held_out=True)
        question = generator(scene, rng)
    sample = to_sample(f"mini_seed/{seed}/{index}", None, question, rng)
    return scene, replace(sample, meta={"n_things": len(scene)})
