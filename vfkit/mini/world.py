"""The mini world: drawn scenes of coloured shapes, simple objects and signs.

Everything is a pure function of a seed. A scene's *signature* (what it holds, and where) decides by hash whether it
belongs to training or to the held-out split, so no held-out scene is ever trained on. Questions about scenes are in
`questions.py`.
"""

import hashlib
import math
from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw, ImageFont

from vfkit.perturb.overlay import font_path, text_overlay

SIDE = 256  # pixels of a rendered scene
COLORS = {
    "red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0), "teal": (0, 128, 128),
    "brown": (165, 42, 42), "gray": (128, 128, 128), "black": (0, 0, 0), "purple": (150, 0, 200),
    "orange": (255, 140, 0),
}  # fmt: skip
SHAPES = ("circle", "rectangle", "triangle", "star", "cross", "ring")
OBJECTS = {"banana": "yellow", "heart": "red", "leaf": "green", "drop": "blue", "carrot": "orange", "cloud": "gray"}
"""Objects and their typical colours."""
KINDS = (*SHAPES, *OBJECTS)
WORDS = ("UP", "GO", "IN", "OK", "BY", "WE", "AM", "TO")  # what signs say
PLACES = ("top left", "top right", "bottom left", "bottom right")
TYPICAL = 0.9  # how often an object has its typical colour
TOGETHER = 0.4  # how often a thing is followed by its usual companion: the co-occurrence that POPE samples by
SIGN = 0.15  # how often a scene of several things holds a sign
HELD_OUT = 10  # one signature in this many is held out
COMPANION = {kind: KINDS[index ^ 1] for index, kind in enumerate(KINDS)}
"""Kinds in pairs that are often seen together."""


@dataclass(frozen=True)
class Thing:
    """A shape or object with its colour and place; for a sign, `color` is its word."""

    kind: str
    color: str
    place: str

    def __str__(self) -> str:
        return f"{self.color} {self.kind}"


Scene = tuple[Thing, ...]


# --- scenes -----------------------------------------------------------------------------------------------------------


def is_held_out(scene: Scene) -> bool:
    signature = "|".join(sorted(f"{thing}@{thing.place}" for thing in scene))
    return int(hashlib.sha256(signature.encode()).hexdigest(), 16) % HELD_OUT == 0


def make_scene(rng: Random, n_things: int, held_out: bool, typical: float = TYPICAL, signs: float = SIGN) -> Scene:
    """Make a scene of one to four things at different places, from the held-out or the training side of the split.

    `typical` is the probability that an object has its typical colour; otherwise all colours are equally likely.
    `signs` is the probability that one thing of several is a sign.
    """
    while True:
        things: list[Thing] = []
        for place in rng.sample(PLACES, n_things):
            kind = rng.choice(KINDS)
            if things and rng.random() < TOGETHER:
                kind = COMPANION[things[-1].kind]
            things.append(Thing(kind, color_of(kind, rng, typical), place))
        if n_things > 1 and rng.random() < signs:
            things[-1] = Thing("sign", rng.choice(WORDS), things[-1].place)
        if is_held_out(tuple(things)) == held_out:
            return tuple(things)


def color_of(kind: str, rng: Random, typical: float) -> str:
    """Return an object's typical colour with probability `typical`, else any colour."""
    return OBJECTS[kind] if kind in OBJECTS and rng.random() < typical else rng.choice(list(COLORS))


def n_things(rng: Random) -> int:
    """Draw a number of things, most often one or two: these are learned first and asked most."""
    return rng.choices((1, 2, 3, 4), weights=(40, 30, 20, 10))[0]


def caption(scene: Scene) -> str:
    """List every thing with its place, in reading order."""
    return ", ".join(f"{thing} {thing.place}" for thing in sorted(scene, key=lambda thing: PLACES.index(thing.place)))


# --- drawing ----------------------------------------------------------------------------------------------------------


def render(scene: Scene, rng: Random) -> Image.Image:
    """Draw a scene as a SIDE x SIDE image; position in the quadrant, size, hue and background vary with `rng`."""
    background = tuple(rng.randint(225, 255) for _ in range(3))
    image = Image.new("RGB", (SIDE, SIDE), background)
    draw = ImageDraw.Draw(image)
    for thing in scene:
        radius = rng.uniform(40, 46) if thing.kind == "sign" else rng.uniform(24, 46)
        low, high = radius + 4, SIDE / 2 - radius - 4
        x, y = (rng.uniform(low, high) for _ in range(2))
        x += SIDE / 2 * thing.place.endswith("right")
        y += SIDE / 2 * thing.place.startswith("bottom")
        if thing.kind == "sign":
            _sign(draw, thing.color, x, y, radius)
            continue
        color = tuple(min(255, max(0, part + rng.randint(-15, 15))) for part in COLORS[thing.color])
        _DRAW[thing.kind](draw, x, y, radius, color)
    return image


def text_card(image: Image.Image, label: str) -> Image.Image:
    """Put a card that names an answer on an image: the planted reason why overlays persuade."""
    return text_overlay(image, f"Answer is {label}")


def _sign(draw, word: str, x: float, y: float, r: float) -> None:
    draw.rectangle((x - r, y - r * 0.7, x + r, y + r * 0.7), fill="white", outline="black", width=3)
    draw.text((x, y), word, fill="black", font=ImageFont.truetype(font_path(), round(r * 1.1)), anchor="mm")


def _circle(draw, x, y, r, color) -> None:
    draw.ellipse((x - r, y - r, x + r, y + r), fill=color)


def _ring(draw, x, y, r, color) -> None:
    draw.ellipse((x - r, y - r, x + r, y + r), outline=color, width=round(r * 0.35))


def _rectangle(draw, x, y, r, color) -> None:
    draw.rectangle((x - r, y - r * 0.8, x + r, y + r * 0.8), fill=color)


def _triangle(draw, x, y, r, color) -> None:
    draw.polygon([(x, y - r), (x - r, y + r * 0.75), (x + r, y + r * 0.75)], fill=color)


def _star(draw, x, y, r, color) -> None:
    draw.regular_polygon((x, y, r * 0.9), 3, rotation=0, fill=color)
    draw.regular_polygon((x, y, r * 0.9), 3, rotation=180, fill=color)


def _cross(draw, x, y, r, color) -> None:
    w = r * 0.32
    draw.rectangle((x - w, y - r, x + w, y + r), fill=color)
    draw.rectangle((x - r, y - w, x + r, y + w), fill=color)


def _banana(draw, x, y, r, color) -> None:
    """A crescent: the lower half of a ring."""
    draw.arc((x - r, y - r * 1.5, x + r, y + r * 0.6), 10, 170, fill=color, width=round(r * 0.5))


def _heart(draw, x, y, r, color) -> None:
    h = r / 2
    draw.ellipse((x - r, y - r * 0.8, x, y + r * 0.2), fill=color)
    draw.ellipse((x, y - r * 0.8, x + r, y + r * 0.2), fill=color)
    draw.polygon([(x - r * 0.93, y - h * 0.25), (x + r * 0.93, y - h * 0.25), (x, y + r)], fill=color)


def _leaf(draw, x, y, r, color) -> None:
    """Where two circles overlap, standing on end: pointed above and below."""
    turn = [math.radians(degrees) for degrees in range(-90, 91, 10)]
    half = [(r * 0.6 * math.cos(t) ** 1.5, r * math.sin(t)) for t in turn]
    outline = [(x + w, y + h) for w, h in half] + [(x - w, y + h) for w, h in reversed(half)]
    draw.polygon(outline, fill=color)
    draw.line((x, y - r, x, y + r), fill="white", width=max(2, round(r * 0.08)))


def _drop(draw, x, y, r, color) -> None:
    w = r * 0.6
    draw.ellipse((x - w, y - w * 0.6 + r * 0.2, x + w, y + r), fill=color)
    draw.polygon([(x, y - r), (x - w * 0.95, y + r * 0.35), (x + w * 0.95, y + r * 0.35)], fill=color)


def _carrot(draw, x, y, r, color) -> None:
    draw.polygon([(x - r * 0.4, y - r * 0.5), (x + r * 0.4, y - r * 0.5), (x, y + r)], fill=color)
    for dx in (-0.3, 0, 0.3):
        draw.line((x, y - r * 0.5, x + r * dx, y - r), fill="darkgreen", width=max(2, round(r * 0.12)))


def _cloud(draw, x, y, r, color) -> None:
    for dx, dy, size in ((-0.5, 0.15, 0.5), (0.5, 0.15, 0.5), (0, -0.15, 0.6)):
        draw.ellipse((x + r * (dx - size), y + r * (dy - size), x + r * (dx + size), y + r * (dy + size)), fill=color)


_DRAW = {
    "circle": _circle, "ring": _ring, "rectangle": _rectangle, "triangle": _triangle, "star": _star, "cross": _cross,
    "banana": _banana, "heart": _heart, "leaf": _leaf, "drop": _drop, "carrot": _carrot, "cloud": _cloud,
}  # fmt: skip
