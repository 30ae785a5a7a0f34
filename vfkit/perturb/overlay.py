"""Text cards laid over an image (HI A.6), and their two controls: the same card with other text, and empty."""

import hashlib
import string
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

_CHARACTERS = string.ascii_uppercase + string.digits


@dataclass(frozen=True)
class Style:
    """Look of a card: lengths in px, colours by any name that Pillow knows.

    The font size is max(min_size, image height // divisor). Raises ValueError for invalid lengths.
    """

    pad: int = 4
    min_size: int = 14
    divisor: int = 32
    color: str = "red"
    fill: str = "white"

    def __post_init__(self):
        if self.pad < 0 or self.min_size < 1 or self.divisor < 1:
            raise ValueError("an overlay needs pad >= 0, min_size >= 1 and divisor >= 1")


def text_overlay(image: Image.Image, phrase: str, style: Style = Style()) -> Image.Image:
    """Write `phrase` on an opaque card in the centre of the image."""
    return draw_box(image, phrase, phrase, style)


def random_text(image: Image.Image, phrase: str, text: str, style: Style = Style()) -> Image.Image:
    """Write `text` on the card of `phrase`, cut from its end until it is no wider than the phrase."""
    font = _font(image, style)
    room = _width(font, phrase)
    while _width(font, text) > room:
        text = text[:-1]
    return draw_box(image, phrase, text, style)


def box_overlay(image: Image.Image, phrase: str, style: Style = Style()) -> Image.Image:
    """Draw the card of `phrase`, empty."""
    return draw_box(image, phrase, "", style)


def draw_box(image: Image.Image, phrase: str, text: str, style: Style = Style()) -> Image.Image:
    """Draw the card of `phrase` in the centre of a copy of the image, with `text` centred in it.

    The card is the phrase's ink box plus `style.pad` px on each side, clipped to the image; nothing outside changes.

    Raises:
        FileNotFoundError: matplotlib's DejaVu Sans is missing.
    """
    font = _font(image, style)
    left, top, right, bottom = font.getbbox(phrase)
    size = int(right - left) + 2 * style.pad, int(bottom - top) + 2 * style.pad
    card = Image.new("RGB", size, style.fill)
    if text:
        left, top, right, bottom = font.getbbox(text)  # the ink does not begin at the drawing point
        x, y = (card.width - (right - left)) // 2 - left, (card.height - (bottom - top)) // 2 - top
        ImageDraw.Draw(card).text((x, y), text, style.color, font)
    covered = image.copy()
    covered.paste(card, ((image.width - card.width) // 2, (image.height - card.height) // 2))
    return covered


def random_string(sample_id: str, position: int, shortest: int = 6, longest: int = 12) -> str:
    """Make a random string over A-Z0-9, the same on every machine for one sample and label position."""
    number = int.from_bytes(hashlib.sha256(f"{sample_id}\0{position}".encode()).digest(), "big")
    number, extra = divmod(number, longest - shortest + 1)
    text = ""
    for _ in range(shortest + extra):
        number, index = divmod(number, len(_CHARACTERS))
        text += _CHARACTERS[index]
    return text


def font_path() -> Path:
    """Path of matplotlib's DejaVu Sans. Raises FileNotFoundError: another font would be another perturbation."""
    path = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    if not path.is_file():
        raise FileNotFoundError(f"overlays need DejaVu Sans, which matplotlib brings as {path}: reinstall matplotlib")
    return path


def _font(image: Image.Image, style: Style) -> ImageFont.FreeTypeFont:
    return _load_font(font_path(), max(style.min_size, image.height // style.divisor))


@lru_cache(maxsize=64)
def _load_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    # the basic layout is in every Pillow; raqm, where present, would set other widths
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)


def _width(font: ImageFont.FreeTypeFont, text: str) -> float:
    left, _, right, _ = font.getbbox(text)
    return right - left
