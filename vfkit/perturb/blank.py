"""Blank images, which measure a question's language prior (HI 7, App. D; METHODS 12)."""

from PIL import Image, ImageStat

MEAN, NONE = "mean", "none"


def blank(image: Image.Image, fill: str) -> Image.Image | None:
    """Make an image of the same size in one colour.

    Args:
        fill: a colour Pillow knows; `mean` for the image's own mean colour, rounded; `none` for no image at all.

    Returns:
        None for `none`: the prompt is then read without this image.

    Raises:
        ValueError: Pillow does not know the colour.
    """
    if fill == NONE:
        return None
    colour = tuple(round(value) for value in ImageStat.Stat(image).mean) if fill == MEAN else fill
    return Image.new("RGB", image.size, colour)
