"""Frequencies of images: radius, radial masks, band-limited noise, low- and high-pass filters (HI 6, F.1, F.2).

Arrays are images [H, W, 3] of floats in [0, 1]; eps is in the same units. Radius r is the spatial frequency divided by
that of the corner of the plane (half a cycle per pixel along both axes), as in `vfkit.measure.spectrum`. Band `low` is
r <= cutoff, `high` is r > cutoff, `all` is the whole plane; low holds the mean of the image. Masks have the shape of
`rfft2`'s half plane.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

import numpy as np
from PIL import Image
from scipy.fft import irfft2, rfft2

from vfkit.perturb.geometric import NotApplicable

BANDS = ("low", "high", "all")
SCALINGS = ("max", "rms")
CUTOFF = 0.25  # low is then 9.8 % of the plane


def mask(height: int, width: int, band: str, cutoff: float = CUTOFF) -> np.ndarray:
    """Mask of the frequencies of `rfft2` in a band, bool [H, W // 2 + 1]. `low` and `high` partition them.

    Raises:
        ValueError: a band other than `low`, `high`, `all`, or a cutoff outside [0, 1].
    """
    if band not in BANDS or not 0 <= cutoff <= 1:
        raise ValueError(f"a mask needs a band out of {', '.join(BANDS)} and a cutoff in [0, 1], not {band}, {cutoff}")
    squared = squared_radius(height, width)
    return np.ones_like(squared, dtype=bool) if band == "all" else (squared <= cutoff**2) == (band == "low")


def squared_radius(height: int, width: int) -> np.ndarray:
    """r^2 of each frequency of `rfft2`, float64 [H, W // 2 + 1]. Squares, because the corner is then exactly 1."""
    return 2 * (np.fft.rfftfreq(width) ** 2 + np.fft.fftfreq(height)[:, None] ** 2)


def weights(width: int) -> np.ndarray:
    """Count of each column of `rfft2`'s half plane in the full plane, float [W // 2 + 1]."""
    columns = np.full(width // 2 + 1, 2.0)
    columns[0] = 1
    if width % 2 == 0:
        columns[-1] = 1
    return columns


def project(array: np.ndarray, band: str, cutoff: float = CUTOFF) -> np.ndarray:
    """Project an array [H, W, channel] on a band."""
    keep = mask(array.shape[0], array.shape[1], band, cutoff)[..., None]
    return irfft2(rfft2(array, axes=(0, 1)) * keep, s=array.shape[:2], axes=(0, 1))


def leakage(arrays: np.ndarray | Iterable[np.ndarray], band: str, cutoff: float = CUTOFF) -> float:
    """Share of the energy of [H, W, channel] arrays, taken together, that lies outside the band; 0 without energy."""
    total = outside = 0.0
    for array in [arrays] if isinstance(arrays, np.ndarray) else arrays:
        power = np.abs(rfft2(array, axes=(0, 1), norm="ortho")) ** 2
        power = power.sum(axis=2) * weights(array.shape[1])
        total += power.sum()
        outside += power[~mask(array.shape[0], array.shape[1], band, cutoff)].sum()
    return float(outside / total) if total else 0.0


# --- noise (HI F.1) ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)  # one draw serves all sizes of noise, and every trial of one image fits
def band_noise(height: int, width: int, band: str, cutoff: float, seed: str) -> np.ndarray:
    """Gaussian noise [H, W, 3] projected on a band, float32, RMS 1. All bands project the same draw of a seed.

    Raises:
        NotApplicable: the band holds no frequency of so small an image.
    """
    if not mask(height, width, band, cutoff).any():
        raise NotApplicable(f"an image of {width} x {height} px has no {band} frequencies")
    white = generator(seed).normal(size=(height, width, 3))
    drawn = project(white, band, cutoff)
    drawn = (drawn / np.sqrt(np.square(drawn).mean())).astype(np.float32)
    drawn.setflags(write=False)
    return drawn


def generator(seed: str) -> np.random.Generator:
    """Make a random generator from a text, the same on every machine."""
    return np.random.default_rng(list(sha256(seed.encode()).digest()))


def noise(image: Image.Image, eps: float, band: str, scaling: str, cutoff: float, seed: str) -> Image.Image:
    """Add band-limited noise whose largest absolute value (`max`) or RMS (`rms`) is eps.

    Equal maxima are not equal strength: the fewer frequencies, the smaller the RMS at the same maximum. Bands are
    compared at equal RMS. What leaves [0, 1] is clipped, so a little of the noise may leave its band.
    """
    if scaling not in SCALINGS or eps < 0:
        raise ValueError(f"noise needs eps >= 0 and a scaling out of {', '.join(SCALINGS)}, not {eps}, {scaling!r}")
    drawn = band_noise(image.height, image.width, band, cutoff, seed)
    size = np.abs(drawn).max() if scaling == "max" else 1.0
    return to_image(to_array(image) + drawn * np.float32(eps / size))


# --- ablation (HI F.2) ------------------------------------------------------------------------------------------------


def low_pass(image: Image.Image, cutoff: float) -> Image.Image:
    """Keep only the frequencies r <= cutoff: at 1 the image itself, at 0 its mean colour."""
    return to_image(project(to_array(image, np.float64), "low", cutoff))


def high_pass(image: Image.Image, cutoff: float) -> Image.Image:
    """Keep only the mean colour and the frequencies r > cutoff: at 0 the image itself, at 1 its mean colour.

    The mean stays because without it half of all values would be below black.
    """
    array = to_array(image, np.float64)
    return to_image(project(array, "high", cutoff) + array.mean(axis=(0, 1)))


# --- arrays and images ------------------------------------------------------------------------------------------------


def to_array(image: Image.Image, kind: type = np.float32) -> np.ndarray:
    """Convert an RGB image to floats [H, W, 3] in [0, 1]."""
    return np.asarray(image, dtype=kind) / 255


def to_image(array: np.ndarray) -> Image.Image:
    """Convert floats [H, W, 3] to an RGB image: clipped to [0, 1], rounded to 8 bits."""
    return Image.fromarray(np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8))


def audit(
    bases: Iterable[Image.Image], changed: Iterable[Image.Image], band: str = "all", cutoff: float = CUTOFF
) -> dict[str, float]:
    """Measure a perturbation after rounding to 8 bits, over all images of a sample.

    Returns:
        `max_abs` and `rms` of the difference, in [0, 1] units, and `leakage_8bit`, the share of its energy outside
        the band.
    """
    deltas = [to_array(new, np.float64) - to_array(old, np.float64) for old, new in zip(bases, changed, strict=True)]
    energy, size = sum(np.square(delta).sum() for delta in deltas), sum(delta.size for delta in deltas)
    sizes = {"max_abs": max(np.abs(delta).max() for delta in deltas), "rms": math.sqrt(energy / size)}
    leak = 0.0 if band == "all" else leakage(deltas, band, cutoff)
    return {name: round(float(value), 7) for name, value in (sizes | {"leakage_8bit": leak}).items()}
