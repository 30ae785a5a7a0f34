"""Image loading: every image is opened here, as an RGB `PIL.Image`."""

import hashlib
import io
import os
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from vfkit.sample import Sample

MAX_SIDE = 1024
"""Longest side that leaves the door, in px."""

MAX_PIXELS = 89_478_485
"""Most pixels that are decoded (a quarter of a gigabyte of RGB): also where Pillow begins to speak of a bomb."""

_ORIENTATION = 0x0112
_TURNS = {  # what undoes each EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageError(ValueError):
    """An image that cannot be read; the message names the sample, the source and the reason."""


def load_image(source: Any, name: str = "", shrink: bool = True) -> Image.Image:
    """Open an image as RGB, 8 bits per channel, longest side at most 1024 px.

    EXIF orientation is applied, transparency composited over white, a longer side than 1024 px reduced to 1024 by
    bicubic resampling (aspect kept, never upscaled). A file with several frames gives the first. Colour
    profiles are not applied. The result shares nothing with the source, and passing it in again changes no pixel.

    Args:
        source: a path, the bytes of an image file, a PIL image, an array of shape (H, W) or (H, W, 1 | 3 | 4), or a
            function that reads one of these, called at every opening (images within a file too large to be held).
            Arrays and single-channel deep images are scaled by their type, never by their content:
            uint8 as it is; uint16, and PIL modes I and I;16, from [0, 65535]; bool from {0, 1}; floats, and PIL
            mode F, from [0, 1]. Other types, and values outside these ranges (NaN too), are an error, since
            guessing a range would make one image black and saturate the next.
        name: the image's name in messages: the id of its sample.
        shrink: reduce a longer side than 1024 px to 1024.

    Returns:
        A new RGB image without metadata.

    Raises:
        ImageError: missing, empty, truncated or not an image, without pixels, above `MAX_PIXELS` (read from the
            header, before decoding), or of a type or range that is not listed above.
    """
    try:
        image = _open(source() if callable(source) else source)
    except Exception as error:  # decoders fail with anything: OSError, SyntaxError, struct.error, zlib.error ...
        prefix = f"{name}: " if name else ""
        raise ImageError(f"{prefix}cannot read {_describe(source)}: {_reason(error)}") from error
    return _shrink(image) if shrink else image


def open_images(sample: Sample, sources: Sequence[Any] | None = None) -> tuple[Image.Image, ...]:
    """Open the images of a sample, or others instead, each with `load_image`.

    Args:
        sources: opened instead of the sample's own images; a single one needs no list. PIL images among them keep
            their size: a perturbed image (padded, rotated) may be larger than what is loaded.

    Raises:
        ImageError: one of them cannot be read.
    """
    if sources is None:
        return tuple(load_image(source, sample.id) for source in sample.images)
    if isinstance(sources, str | bytes | os.PathLike | np.ndarray | Image.Image):  # one image, not a list of them
        sources = (sources,)
    return tuple(load_image(each, sample.id, shrink=not isinstance(each, Image.Image)) for each in sources)


def content_hash(image: Image.Image) -> str:
    """Digest of mode, size and pixels: 16 hex digits of the sha256, equal for equal pixels in any file format."""
    digest = hashlib.sha256(f"{image.mode} {image.width}x{image.height} ".encode())
    digest.update(image.tobytes())
    return digest.hexdigest()[:16]


_hashes: dict[int, tuple[weakref.ref, str]] = {}


def lasting_hash(image: Image.Image) -> str:
    """Return `content_hash` of an image whose pixels stay as they are, computed once for as long as the image lives."""
    key = id(image)
    kept, digest = _hashes.get(key, (None, ""))
    if kept is None or kept() is not image:
        digest = content_hash(image)
        _hashes[key] = weakref.ref(image, lambda _: _hashes.pop(key, None)), digest
    return digest


def numbered(images: Iterable[Image.Image]) -> dict[int, int]:
    """Number images by their content: by the `id` of each, numbers that are equal for equal mode, size and pixels.

    Pixels are compared, which is faster than hashing them; images may have changed since an earlier call.
    """
    alike: dict[tuple, list[tuple[Image.Image, int]]] = {}
    numbers: dict[int, int] = {}
    for image in images:
        if id(image) in numbers:
            continue
        pixels = image.tobytes()
        seen = alike.setdefault((image.mode, image.size, pixels[::61]), [])  # few of equal sixty-firsts differ
        same = (number for other, number in seen if other.tobytes() == pixels)
        numbers[id(image)] = number = next(same, len(numbers))
        if number == len(numbers) - 1:
            seen.append((image, number))
    return numbers


def to_png(image: Image.Image) -> bytes:
    """Encode an image as a lossless PNG file, small enough to hold thousands in memory."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def _open(source: Any) -> Image.Image:
    if isinstance(source, np.ndarray):
        return _rgb(_from_array(source))
    if isinstance(source, Image.Image):
        return _decode(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        stream: io.BytesIO | Path = io.BytesIO(source)
        size = len(source)
    elif isinstance(source, (str, os.PathLike)):
        path = os.path.expanduser(source)  # not Path's, by which "" is the current folder
        stream, size = Path(path), os.stat(path).st_size
    else:
        raise TypeError("an image is a path, bytes, a PIL image, a numpy array, or a function that reads one of these")
    if size == 0:
        raise ValueError("it is empty")
    with Image.open(stream) as image:
        return _decode(image)


def _decode(image: Image.Image) -> Image.Image:
    _check_pixels(*image.size)
    tile = getattr(image, "tile", None)
    raw_mode = tile[0][3] if tile else None  # the file's own depth, forgotten by decoding
    image.load()
    return _rgb(_upright(image), _colour_key(image.info.get("transparency"), raw_mode))


def _check_pixels(width: int, height: int) -> None:
    if width * height == 0:
        raise ValueError("it has no pixels")
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} x {height} is more than the {MAX_PIXELS:,} pixels that are decoded")


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except Exception:  # a broken EXIF block states no orientation; the pixels are sound
        return image
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def _colour_key(key: Any, raw_mode: Any) -> Any:
    """Return the transparent colour of a file in the units of its decoded pixels.

    Pillow expands 2- and 4-bit greys and cuts 16-bit colours to 8 bits, but leaves the colour key as the file has it.
    """
    if key is None:
        return None
    if raw_mode in ("L;2", "L;4"):
        return key * {"L;2": 85, "L;4": 17}[raw_mode]
    return tuple(value >> 8 for value in key) if raw_mode == "RGB;16B" else key


def _rgb(image: Image.Image, key: Any = None) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        values = np.asarray(image)
        grey = _eight_bits(_sixteen_bits(values) if image.mode == "I" else values)
        image = Image.fromarray(grey if key is None else np.where(values == key, np.uint8(255), grey))
    elif image.has_transparency_data:
        if image.mode == "La":  # premultiplied grey converts in two steps only
            image = image.convert("LA")
        if key is not None and key != image.info.get("transparency"):
            image = image.copy()
            image.info["transparency"] = key
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")  # a copy even where the mode is RGB already
    image.info = {}
    return image


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        raise ValueError("an array needs shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)")
    _check_pixels(array.shape[1], array.shape[0])
    return Image.fromarray(np.ascontiguousarray(_eight_bits(array)))


def _sixteen_bits(values: np.ndarray) -> np.ndarray:
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"mode I is read as 16 bits, its values span {values.min()} to {values.max()}")
    return values.astype(np.uint16)


def _eight_bits(values: np.ndarray) -> np.ndarray:
    kind, width = values.dtype.kind, values.dtype.itemsize
    if kind == "b":
        return values * np.uint8(255)
    if (kind, width) == ("u", 1):
        return values
    if (kind, width) == ("u", 2):
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # nearest of x * 255 / 65535
    if kind != "f":
        raise ValueError(f"{values.dtype} has no agreed range; convert to uint8, uint16 or floats in [0, 1]")
    if not ((values >= 0) & (values <= 1)).all():  # also false for NaN
        raise ValueError(f"floats must lie in [0, 1], its values span {values.min():g} to {values.max():g}")
    return np.rint(values.astype(np.float64) * 255).astype(np.uint8)


def _shrink(image: Image.Image) -> Image.Image:
    longest = max(image.size)
    if longest <= MAX_SIDE:
        return image
    width, height = (max(1, round(side * MAX_SIDE / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC)


def _describe(source: Any) -> str:
    if isinstance(source, (str, os.PathLike)):
        return f"image {os.fspath(source)!r}"
    if isinstance(source, (bytes, bytearray, memoryview)):
        return f"image of {len(source):,} bytes"
    if isinstance(source, np.ndarray):
        return f"array of shape {source.shape} and type {source.dtype}"
    if isinstance(source, Image.Image):
        return f"PIL image of mode {source.mode} and size {source.width} x {source.height}"
    return f"image {source}" if callable(source) else f"image from {type(source).__name__}"


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image, or its header is cut off"
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return f"it has more than the {MAX_PIXELS:,} pixels that are decoded"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
