"""Geometric perturbations (HI A.6): pure functions from one RGB `PIL.Image` to a new one."""

import io
import math

from PIL import Image, ImageChops

from vfkit.images import load_image


class NotApplicable(ValueError):
    """A perturbation whose parameters do not fit this image; the message says why."""


def identity(image: Image.Image) -> Image.Image:
    """Encode and decode the same pixels without loss (BMP): the effect of the pipeline on its own."""
    file = io.BytesIO()
    image.save(file, "BMP")
    return load_image(file.getvalue(), shrink=False)


def translate(image: Image.Image, n: int) -> Image.Image:
    """Shift cyclically along the horizontal by n px, to the right for n > 0; same size, nothing is resampled.

    Raises:
        NotApplicable: n is a multiple of the width other than 0, so that the shift would change nothing.
    """
    if n and n % image.width == 0:
        raise NotApplicable(f"translation by {n} px needs a width that does not divide it, not {image.width} px")
    return ImageChops.offset(image, n, 0)


def pad_crop(image: Image.Image, n: int) -> Image.Image:
    """Add a black border of n px on each side for n > 0, or cut -n px from each side for n < 0; not resized back.

    Raises:
        NotApplicable: a side is <= 2|n| px, for either sign, so that +n and -n always come in pairs.
    """
    if min(image.size) <= 2 * abs(n):
        raise NotApplicable(f"pad_crop by {n} px needs sides above {2 * abs(n)} px, not {image.width} x {image.height}")
    return image.crop((-n, -n, image.width + n, image.height + n))  # crop fills what lies outside with black


SIZES = ("scaled", "restored")


def scale(image: Image.Image, factor: float, size: str = "scaled") -> Image.Image:
    """Resize to `factor` of each side (bicubic, rounded, at least 1 px).

    Args:
        size: of the result: `scaled`, or `restored`, which brings the image back to its size (bicubic).

    Raises:
        ValueError: the factor is not a positive number, or another size.
    """
    if not 0 < factor < math.inf:
        raise ValueError(f"a scale factor is positive, not {factor}")
    if size not in SIZES:
        raise ValueError(f"the size of a scaled image is {' or '.join(SIZES)}, not {size!r}")
    width, height = (max(1, round(side * factor)) for side in image.size)
    scaled = image.resize((width, height), Image.Resampling.BICUBIC)
    return scaled.resize(image.size, Image.Resampling.BICUBIC) if size == "restored" else scaled


def scale_pad(image: Image.Image, factor: float, fill: str) -> Image.Image:
    """Centre (floor) the scaled image on a canvas of the original size in the colour `fill`.

    Raises:
        ValueError: the factor is outside (0, 1], or Pillow does not know the colour.
    """
    if not 0 < factor <= 1:
        raise ValueError(f"a padded scale factor lies in (0, 1], not {factor}")
    small = scale(image, factor)
    canvas = Image.new("RGB", image.size, fill)
    canvas.paste(small, ((image.width - small.width) // 2, (image.height - small.height) // 2))
    return canvas


def rotate(image: Image.Image, degrees: float, fill: str) -> Image.Image:
    """Rotate (bicubic), counter-clockwise for degrees > 0; the canvas grows to fit and is filled with `fill`.

    Raises:
        ValueError: Pillow does not know the colour.
    """
    return image.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=fill)
