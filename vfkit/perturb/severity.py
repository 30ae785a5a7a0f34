"""Perturbations with a strength, from 0 (the image itself) upwards: pure functions on one RGB image (METHODS 17).

Lengths are per cent of the image's own sides, so that one strength means the same on small and on large images. `seed`
is a text; it fixes what is random (the direction of a shift or a turn, the draw of the noise) for all strengths of a
sample, so that a larger strength goes further the same way.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from PIL import Image, ImageEnhance, ImageFilter

from vfkit.images import load_image
from vfkit.perturb import frequency, geometric, overlay
from vfkit.perturb.geometric import NotApplicable

_ANY_HEIGHT = 10**6  # no image is so high: the divisor of a card's font then never decides


def shift(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Shift cyclically along the horizontal by `strength` per cent of the width, to a random side."""
    pixels = round(image.width * strength / 100)
    if pixels % image.width == 0:
        raise NotApplicable(f"{strength:g} % of a width of {image.width} px is no shift")
    return geometric.translate(image, pixels * _direction(seed))


def crop(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Cut `strength` per cent of the side off each of the four edges; not resized back."""
    x, y = (round(side * strength / 100) for side in image.size)
    if not x and not y or min(image.width - 2 * x, image.height - 2 * y) < 1:
        raise NotApplicable(f"{strength:g} % of {image.width} x {image.height} px cannot be cut off each edge")
    return image.crop((x, y, image.width - x, image.height - y))


def rotation(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Rotate by `strength` degrees in a random direction, on a white canvas that grows."""
    return geometric.rotate(image, strength * _direction(seed), "white")


def scale(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Make each side `strength` per cent smaller, bicubic; not resized back."""
    return geometric.scale(image, 1 - strength / 100)


def card(image: Image.Image, strength: float, seed: str, phrase: str) -> Image.Image:
    """Write `phrase` on a card in the centre, in a font of `strength` per cent of the height."""
    size = max(1, round(image.height * strength / 100))
    return overlay.text_overlay(image, phrase, overlay.Style(min_size=size, divisor=_ANY_HEIGHT))


def noise(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Add Gaussian noise with an SD of `strength` grey levels, pixel by pixel; clipped to the range of pixels."""
    drawn = frequency.generator(seed).normal(size=(image.height, image.width, 3))
    return frequency.to_image(frequency.to_array(image) + drawn * strength / 255)


def blur(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Blur with a Gaussian whose SD is `strength` per cent of the shorter side."""
    return image.filter(ImageFilter.GaussianBlur(min(image.size) * strength / 100))


def jpeg(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Compress as JPEG of quality 100 - `strength`, colours subsampled by two, and open it again."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=round(100 - strength), subsampling="4:2:0")
    return load_image(file.getvalue(), shrink=False)


def brightness(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Darken by `strength` per cent: at 100 the image is black."""
    return ImageEnhance.Brightness(image).enhance(1 - strength / 100)


def contrast(image: Image.Image, strength: float, seed: str) -> Image.Image:
    """Take `strength` per cent of the contrast away: at 100 the image is its mean grey."""
    return ImageEnhance.Contrast(image).enhance(1 - strength / 100)


# function, unit of the strength, the largest possible one (not itself possible where it would leave nothing), defaults
KINDS: dict[str, tuple[Callable[..., Image.Image], str, float, tuple[float, ...]]] = {
    "shift": (shift, "% of the width", 50, (2, 5, 10, 20)),
    "crop": (crop, "% of each side, every edge", 49, (2, 5, 10, 20)),
    "rotation": (rotation, "degrees", 180, (5, 15, 30, 60)),
    "scale": (scale, "% smaller", 99, (5, 10, 25, 50)),
    "overlay": (card, "font size, % of the height", 100, (3, 6, 9, 12)),
    "noise": (noise, "SD in grey levels", 255, (8, 16, 32, 64)),
    "blur": (blur, "SD, % of the shorter side", 100, (0.5, 1, 2, 4)),
    "jpeg": (jpeg, "100 - quality", 99, (20, 50, 80, 95)),
    "brightness": (brightness, "% darker", 100, (20, 40, 60, 80)),
    "contrast": (contrast, "% less contrast", 100, (20, 40, 60, 80)),
}
PREFIX = "severity_"
SEVERITY = tuple(PREFIX + kind for kind in KINDS)
"""The families with a strength, in their order."""


def settings(
    kinds: Iterable[str] | None = None, strengths: Mapping[str, Iterable[float]] | None = None
) -> dict[str, Any]:
    """Make the fields `families` and `family_params` of a study of severity.

    Args:
        kinds: names in `KINDS`; None takes all. strengths: by kind, those to read instead of the default ones.

    Raises:
        ValueError: an unknown kind, or strengths of a kind that is not among `kinds`.
    """
    strengths = strengths or {}
    chosen = list(KINDS if kinds is None else kinds)
    for kind in (*chosen, *strengths):
        if kind not in KINDS:
            raise ValueError(f"unknown severity {kind!r}; there are: {', '.join(KINDS)}")
    if unused := [kind for kind in strengths if kind not in chosen]:
        raise ValueError(f"strengths of {', '.join(unused)}, which is not among the kinds {', '.join(chosen)}")
    params = {PREFIX + kind: {"strength": list(values)} for kind, values in strengths.items()}
    return {"families": ["identity", *(PREFIX + kind for kind in chosen)], "family_params": params or None}


def change(kind: str, strength: float, seed: str, **fixed: str) -> Callable[[Image.Image], Image.Image]:
    """The change of one image by a kind at a strength; strength 0 gives the same pixels, whatever the kind.

    Raises:
        ValueError: a strength below 0 or above the kind's largest.
    """
    function, unit, most, _ = KINDS[kind]
    if not 0 <= strength <= most:
        raise ValueError(f"a strength of {kind} lies in [0, {most:g}] ({unit}), not {strength:g}")
    if strength == 0:
        return geometric.identity
    return lambda image: function(image, strength, seed, **fixed)


def _direction(seed: str) -> int:
    return 1 if frequency.generator(seed).random() < 0.5 else -1
