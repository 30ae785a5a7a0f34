"""What a perturbation does to the image's spectrum: power and phase in radial bands (HI F.4; METHODS 10).

Conventions. Pixel values lie in [0, 1]. The power of a frequency is |F|^2 / (H W), so white noise of variance v has
power v in every band, whatever the image's size. Radius r is the spatial frequency divided by that of the corner of
the plane (half a cycle per pixel along both axes); a band holds edge < r <= next edge. The mean of the image (DC) is
in no band: brightness alone changes nothing here. Transforms are float32, of the image less its mean, so that a
constant image transforms to exact zeros.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from PIL import Image
from scipy.fft import rfft2

from vfkit.perturb import frequency

BANDS = ("low", "mid", "high")
MEASURES = ("power", "coherence", "phase")
_EDGES = {
    "log": (0.0, 1 / 16, 1 / 4, 1.0),
    "equal": (0.0, 1 / 3, 2 / 3, 1.0),
    "percentile": (0.0, (2 / (3 * np.pi)) ** 0.5, (4 / (3 * np.pi)) ** 0.5, 1.0),
}
_SILENT = 1e-6  # amplitudes below it are rounding noise: one grey level in one pixel makes 4e-6 at 1024 x 1024


def band_edges(kind: str = "log") -> tuple[float, float, float, float]:
    """Edges of the bands low, mid, high in r (0: DC, 1: the corner), the same for images of every size.

    `log`: 1/16 and 1/4, so mid and high span a factor of four each, low is all below, and high is what the spectral
    suite calls high. `equal`: thirds of the radius. `percentile`: thirds of the plane, so that each band holds as many
    frequencies (a disc of radius r covers pi r^2 / 2 of it).

    Raises:
        ValueError: another kind.
    """
    if kind not in _EDGES:
        raise ValueError(f"unknown band edges {kind!r}; there are {', '.join(_EDGES)}")
    return _EDGES[kind]


def spectrum_against(base: Image.Image | np.ndarray, kind: str = "log") -> Callable[..., dict[str, float]]:
    """A function from images to the spectral columns of their records; the base image is transformed once.

    Args:
        base: RGB, as PIL image or array [H, W, 3] in [0, 1]. kind: of `band_edges`.

    The function takes such an image, brings it to the base's size (bicubic) and returns, per band: `power_<band>`, the
    mean power over frequencies and channels; `coherence_<band>` = |sum F_base conj(F)| / sqrt(sum |F_base|^2 sum
    |F|^2), which is 1 for a mere change of contrast; and `phase_<band>`, its power-free form |mean exp(i phase
    difference)| over the frequencies at which both images have any power. Sums and means are over the whole plane, so
    the turns of f and -f cancel but for the cosine. NaN where a band is empty (a side of one or few pixels) or an
    image constant.

    Raises:
        ValueError: an array of another shape, of integers, or with values outside [0, 1].
    """
    size, edges = _size(base), band_edges(kind)
    weights = _weights(*size, edges)  # [band, frequency]
    counts = 3 * weights.sum(axis=1, dtype=np.float64)
    first = _transform(base, size)  # [channel, frequency]; all that is kept: 19 MB at 1024 x 1024
    real, imaginary = np.ascontiguousarray(first.real), np.ascontiguousarray(first.imag)
    first_power = _power(first)
    inverse = _inverse_root(first_power)
    first_total = _banded(weights, first_power)

    def compare(image: Image.Image | np.ndarray) -> dict[str, float]:
        other = _transform(image, size)
        power = _power(other)
        cross = real * other.real
        cross += imaginary * other.imag  # real parts only: the imaginary ones of f and -f cancel
        turn = _inverse_root(power)
        turn *= inverse
        both = turn > 0  # where both have power
        cross *= both
        total, crossed, loud = (_banded(weights, each) for each in (power, cross, both))
        turned = _banded(weights, np.multiply(cross, turn, out=turn))
        with np.errstate(invalid="ignore"):  # 0 / 0: an empty band, a constant image
            by_band = {
                "power": total / counts,
                "coherence": np.abs(crossed) / np.sqrt(first_total * total),
                "phase": np.abs(turned) / loud,
            }
        return {f"{name}_{band}": float(by_band[name][i]) for name in MEASURES for i, band in enumerate(BANDS)}

    return compare


def spectrum_of(image: Image.Image | np.ndarray, base: Image.Image | np.ndarray, kind: str = "log") -> dict[str, float]:
    """The spectral columns of one image's record; `spectrum_against` is the way for several images of one base."""
    return spectrum_against(base, kind)(image)


def band_power(image: Image.Image | np.ndarray, kind: str = "log") -> dict[str, float]:
    """Mean power per band of an image, by band."""
    columns = spectrum_of(image, image, kind)
    return {band: columns[f"power_{band}"] for band in BANDS}


def phase_coherence(
    base: Image.Image | np.ndarray, perturbed: Image.Image | np.ndarray, kind: str = "log"
) -> tuple[dict[str, float], dict[str, float]]:
    """Phase coherence with the base image, and its power-free form, each by band."""
    columns = spectrum_of(perturbed, base, kind)
    coherence, phase = ({band: columns[f"{name}_{band}"] for band in BANDS} for name in ("coherence", "phase"))
    return coherence, phase


def _size(image: Image.Image | np.ndarray) -> tuple[int, int]:
    """Width and height."""
    return image.size if isinstance(image, Image.Image) else _checked(image).shape[1::-1]


def _checked(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"an array image has shape (H, W, 3), not {array.shape}")
    if array.dtype.kind != "f" or not ((array >= 0) & (array <= 1)).all():
        raise ValueError("an array image holds floats in [0, 1]")
    return array


def _transform(image: Image.Image | np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """FFT [channel, frequency] of the image at that size, complex64: the half plane that `rfft2` keeps."""
    if isinstance(image, Image.Image):
        image = image.convert("RGB")
        image = image if image.size == size else image.resize(size, Image.Resampling.BICUBIC)
        values = _planes(image)
        values /= 255
    else:
        values = _planes(_checked(image))
        if values.shape[:0:-1] != size:
            resized = (Image.fromarray(each).resize(size, Image.Resampling.BICUBIC) for each in values)
            values = np.stack([np.asarray(each) for each in resized])
    values -= values.mean(axis=(1, 2), dtype=np.float64, keepdims=True).astype(np.float32)
    return rfft2(values, norm="ortho", overwrite_x=True).reshape(3, -1)


def _power(transform: np.ndarray) -> np.ndarray:
    """Squared amplitudes; those of rounding noise, which has a phase too, are zero."""
    power = transform.real**2
    power += transform.imag**2
    power[power <= _SILENT**2] = 0
    return power


def _inverse_root(power: np.ndarray) -> np.ndarray:
    """1 / sqrt(power), 0 where there is none."""
    with np.errstate(divide="ignore"):
        inverse = 1 / np.sqrt(power)
    inverse[power == 0] = 0
    return inverse


def _banded(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums over the bands of [channel, frequency], float64 [band]."""
    return (weights @ values.sum(axis=0, dtype=np.float32)).astype(np.float64)


def _planes(image: Image.Image | np.ndarray) -> np.ndarray:
    """float32 [channel, H, W], one channel after the other: the FFT is much faster so."""
    return np.moveaxis(np.asarray(image), 2, 0).astype(np.float32, order="C")


@lru_cache(maxsize=8)  # data sets have few sizes
def _weights(width: int, height: int, edges: tuple[float, ...]) -> np.ndarray:
    """How often each frequency of `rfft2` stands in the full plane, by band [band, frequency]."""
    squared = frequency.squared_radius(height, width)
    lower, upper = np.square(edges[:-1])[:, None, None], np.square(edges[1:])[:, None, None]
    within = (squared > lower) & (squared <= upper)
    return (within * frequency.weights(width)).reshape(len(edges) - 1, -1).astype(np.float32)
