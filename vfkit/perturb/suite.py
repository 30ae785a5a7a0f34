"""Suites of perturbations as data: families, their parameters, and the instances they make."""

import difflib
import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from operator import index
from typing import Any

from PIL import Image

from vfkit.images import load_image
from vfkit.perturb import frequency, geometric, overlay, severity
from vfkit.perturb.blank import blank
from vfkit.sample import LETTERS, Instance, Sample

Change = Callable[..., Image.Image | None]
"""The change of one image by an instance; returning None removes the image."""

Member = tuple[str, dict[str, Any], Change]
"""End of the instance's name, its parameters (JSON-able), and its change."""


def _geometric(function: Change) -> Callable[..., Iterator[Member]]:
    def members(sample: Sample, base: int, **params) -> Iterator[Member]:
        axes = [key for key, value in params.items() if isinstance(value, tuple)]
        for values in itertools.product(*(params[axis] for axis in axes)):
            chosen = params | dict(zip(axes, values, strict=True))
            end = "".join(f"_{_show(*pair)}" for pair in zip(axes, values, strict=True))
            yield end, chosen, partial(function, **chosen)

    return members


def _show(axis: str, value: Any) -> str:
    if axis == "eps":
        return f"{255 * value:g}"  # in grey levels: 8/255 is 8
    if axis == "strength":
        return f"{value:g}"
    return f"{value:+g}" if axis in ("n", "degrees") else str(value)


def _noise(band: str) -> Callable[..., Iterator[Member]]:
    """Make `trials` draws for each scaling and eps; sample and trial seed the draw, for all bands and sizes."""

    def members(sample: Sample, base: int, trials: int, cutoff: float, **axes) -> Iterator[Member]:
        if trials < 1:
            raise ValueError("noise needs trials >= 1")
        for end, chosen, change in _geometric(frequency.noise)(sample, base, **axes):
            for trial in range(trials):
                seed = f"noise/{sample.id}/{trial}"
                params = chosen | {"band": band, "cutoff": cutoff, "trial": trial}
                yield f"{end}_{trial}", params, partial(change, band=band, cutoff=cutoff, seed=seed)

    return members


def _attack(sample: Sample, base: int, **params) -> Iterator[Member]:
    """Check the parameters of an attack; its instances need the model and are made by `vfkit.attack`."""
    if min(params["eps"]) < 0 or not params["step"] > 0 or params["steps"] < 1 or params["controls"] < 0:
        raise ValueError("an attack needs eps >= 0, step > 0, steps >= 1, controls >= 0")
    frequency.mask(1, 1, "low", params["cutoff"])
    if params["copies"] not in COPIES:
        raise ValueError(f"copies {params['copies']!r} is none of {', '.join(COPIES)}")
    if params["target"] not in ("", "second", "last", *LETTERS):
        raise ValueError(f"target {params['target']!r} is none of '' (no target), 'second', 'last', or a letter")
    return iter(())


def _cards(sample: Sample, base: int, labels: int, phrase: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield option index, label and phrase of the first `labels` labels other than the base prediction."""
    if labels < 1:
        raise ValueError("an overlay family needs labels >= 1")
    others = [option for option, label in enumerate(sample.labels) if label != sample.labels[base]]
    for option in others[:labels]:
        label = sample.labels[option]
        # one line whatever the label holds: the card is one line high
        yield option, {"label": label, "phrase": " ".join(phrase.replace("{label}", label).split())}


def _overlay(draw: Callable[..., Image.Image]) -> Callable[..., Iterator[Member]]:
    def members(sample: Sample, base: int, labels: int, phrase: str, **style) -> Iterator[Member]:
        look = overlay.Style(**style)
        for option, card in _cards(sample, base, labels, phrase):
            yield f"_{LETTERS[option]}", card | style, partial(draw, phrase=card["phrase"], style=look)

    return members


def _random_text(
    sample: Sample, base: int, labels: int, phrase: str, shortest: int, longest: int, **style
) -> Iterator[Member]:
    if not 1 <= shortest <= longest:
        raise ValueError("random_text needs 1 <= shortest <= longest")
    look = overlay.Style(**style)
    for option, card in _cards(sample, base, labels, phrase):
        text = overlay.random_string(sample.id, option, shortest, longest)
        draw = partial(overlay.random_text, phrase=card["phrase"], text=text, style=look)
        yield f"_{LETTERS[option]}", card | {"text": text} | style, draw


def _graded(kind: str) -> Callable[..., Iterator[Member]]:
    """Make one instance for each strength; the sample seeds what is random, alike for all strengths."""

    def members(sample: Sample, base: int, strength: tuple[float, ...], **card) -> Iterator[Member]:
        cards = _cards(sample, base, 1, card["phrase"]) if card else [(0, {})]
        for (_, fixed), value in itertools.product(cards, strength):
            phrase = {"phrase": fixed["phrase"]} if fixed else {}
            change = severity.change(kind, value, f"severity/{sample.id}", **phrase)
            yield f"_{_show('strength', value)}", {"strength": value} | fixed, change

    return members


# The parameters of every family. A tuple is an axis: one instance per value (per combination, where there are
# several); anything else is fixed for the family. Overlays make one instance per label instead.
_SHIFTS = (-16, -12, -8, -4, 4, 8, 12, 16)
_CARD = {"labels": 3, "phrase": "Answer is {label}", **asdict(overlay.Style())}
_EPS = tuple(level / 255 for level in (1, 2, 4, 8, 16))
_NOISE = {"scaling": frequency.SCALINGS, "eps": _EPS, "trials": 5, "cutoff": frequency.CUTOFF}
_CUTOFFS = tuple(round(i / 9, 3) for i in range(10))
_PGD = {"eps": (8 / 255,), "step": 2 / 255, "steps": 10, "cutoff": frequency.CUTOFF}
_PGD |= {"random_start": 0, "target": "", "controls": 1}  # controls: noise of the same band and size, per image
COPIES = ("shared", "label_only")
"""Copies of the image that an attack changes: one for all options, or the attacked label's only (METHODS 11)."""
_PGD |= {"copies": COPIES[0]}
_GRADED = {name: {"strength": tuple(map(float, kind[3]))} for name, kind in severity.KINDS.items()}
_GRADED["overlay"] |= {"phrase": _CARD["phrase"]}
_FAMILIES: dict[str, tuple[Callable[..., Iterator[Member]], dict[str, Any]]] = {
    "identity": (_geometric(geometric.identity), {}),
    "translation": (_geometric(geometric.translate), {"n": _SHIFTS}),
    "pad_crop": (_geometric(geometric.pad_crop), {"n": _SHIFTS}),
    "scale": (_geometric(geometric.scale), {"factor": (0.9,), "size": "scaled"}),
    "scale_pad": (_geometric(geometric.scale_pad), {"factor": 0.9, "fill": ("black", "white")}),
    "rotation": (_geometric(geometric.rotate), {"degrees": (-30.0, 30.0), "fill": "white"}),
    "text_overlay": (_overlay(overlay.text_overlay), _CARD),
    "random_text": (_random_text, {**_CARD, "shortest": 6, "longest": 12}),
    "box_overlay": (_overlay(overlay.box_overlay), _CARD),
    "blank": (_geometric(blank), {"fill": ("white",)}),  # or black, grey, mean, none: no image
    **{f"noise_{band}": (_noise(band), _NOISE) for band in frequency.BANDS},
    "low_pass": (_geometric(frequency.low_pass), {"cutoff": _CUTOFFS}),
    "high_pass": (_geometric(frequency.high_pass), {"cutoff": _CUTOFFS}),
    **{f"pgd_{mode}": (_attack, _PGD) for mode in ("pixel", "low", "high")},
    **{severity.PREFIX + kind: (_graded(kind), params) for kind, params in _GRADED.items()},
}
FAMILIES = tuple(_FAMILIES)
NATURAL_FAMILIES = (
    *("identity", "translation", "pad_crop", "scale", "scale_pad", "rotation"),
    *("text_overlay", "random_text", "box_overlay"),
)
HI_FAMILIES = ("translation", "pad_crop", "scale", "scale_pad", "rotation", "text_overlay")
"""The six families of HI's union."""
ATTACKS = ("pgd_pixel", "pgd_low", "pgd_high")
"""Families whose instances need the model: `vfkit.attack` makes them."""


@dataclass(frozen=True)
class Suite:
    """Families and their complete parameters, in the order of their instances; made by `natural_suite`."""

    families: dict[str, dict[str, Any]]

    def instances(
        self, sample: Sample, base_label: int | str, images: Iterable[Image.Image] | None = None
    ) -> list[Instance]:
        """Make every instance of the suite for one sample, except attacks; all its images are perturbed alike.

        A name is the family and the instance's setting: `translation_-16`, `scale_0.9`,
        `scale_pad_black`, `rotation_+30`, `text_overlay_B` (B the option's letter, for yes/no samples too),
        `identity`. An instance that does not fit one of the images has a reason and no images.

        Args:
            sample: the sample.
            base_label: the model's base prediction, as an index of the options or as a label of `sample.labels`.
            images: the sample's images if they are open already; otherwise they are opened here.

        Raises:
            ValueError: `base_label` is not one of the sample's options, or the sample has no image.
            ImageError: an image cannot be read.
        """
        base = _base_index(sample, base_label)
        images = [load_image(source, sample.id) for source in sample.images] if images is None else list(images)
        if not images:
            raise ValueError(f"sample {sample.id!r} has no image to perturb")
        return [
            _instance(family, family + end, params, change, images)
            for family, settings in self.families.items()
            for end, params, change in _FAMILIES[family][0](sample, base, **settings)
        ]

    def sizes(self, sample: Sample) -> dict[str, int]:
        """Number of instances of a sample by family, without its images; 0 of attacks, which need the model."""
        return {
            family: sum(1 for _ in _FAMILIES[family][0](sample, 0, **settings))
            for family, settings in self.families.items()
        }

    @property
    def attacks(self) -> dict[str, dict[str, Any]]:
        """The suite's families that need the model, with their parameters."""
        return {family: settings for family, settings in self.families.items() if family in ATTACKS}


def natural_suite(
    families: Iterable[str] | str | None = None, params: Mapping[str, Mapping[str, Any]] | None = None
) -> Suite:
    """Make the suite of natural perturbations (HI A.6), or one of some families or with other parameters.

    Args:
        families: names in `FAMILIES`, whose order is kept; None takes the natural ones, an empty list none.
        params: parameters to replace, by family: `{"translation": {"n": [-32, 32]}, "rotation": {"fill": "black"}}`.
            Families that are not in use are allowed, so that one file serves many suites.

    Raises:
        ValueError: an unknown family or parameter (named, with the nearest valid name), or an impossible value.
    """
    wanted = NATURAL_FAMILIES if families is None else [families] if isinstance(families, str) else list(families)
    params = params or {}
    for family in (*wanted, *params):
        if family not in _FAMILIES:
            raise _unknown("family", family, FAMILIES)
    settings = {family: _settings(family, params.get(family) or {}) for family in (*wanted, *params)}
    return Suite({family: settings[family] for family in FAMILIES if family in wanted})


def _settings(family: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply changes to a family's parameters, and try them once, so that invalid values fail now."""
    make, defaults = _FAMILIES[family]
    if not isinstance(changes, Mapping):
        raise ValueError(f"the parameters of family {family!r} are a dict, not {changes!r}")
    settings = dict(defaults)
    for key, value in changes.items():
        if key not in defaults:
            raise _unknown(f"parameter of {family!r},", key, defaults)
        settings[key] = _like(defaults[key], value, f"{family}.{key}")
    trial = Sample("trial", (), "", ("", ""))
    try:
        for end, params, change in make(trial, 0, **settings):
            _instance(family, end, params, change, [Image.new("RGB", (8, 8))])
    except FileNotFoundError:  # of the font: no setting is to blame
        raise
    except (ValueError, OSError, OverflowError, MemoryError) as error:
        raise ValueError(f"family {family!r}: {error}") from error
    return settings


def _like(default: Any, value: Any, name: str) -> Any:
    """Convert `value` to the type of the default: for an axis a tuple of different values, else one value."""
    if isinstance(default, tuple):
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        values = tuple(_like(default[0], one, name) for one in values)
        shown = {_show(name.split(".")[-1], one) for one in values}  # instances are told apart by what is shown
        if not values or len(shown) < len(values):
            raise ValueError(f"{name} needs one or more different values, not {value!r}")
        return values
    kind = type(default)
    accepted = {int: numbers.Integral, float: numbers.Real, str: str}[kind]
    if not isinstance(value, accepted) or isinstance(value, bool):
        raise ValueError(f"{name} needs {kind.__name__} values, not {value!r}")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{name} needs a finite number, not {value!r}")
    return kind(value)


def _unknown(what: str, name: Any, valid: Iterable[str]) -> ValueError:
    valid = list(valid)
    nearest = difflib.get_close_matches(str(name), valid, n=1, cutoff=0)
    hint = f"; did you mean {nearest[0]!r}? There are: {', '.join(valid)}" if nearest else "; it has none"
    return ValueError(f"unknown {what} {name!r}{hint}")


def _base_index(sample: Sample, base_label: int | str) -> int:
    labels = sample.labels
    if isinstance(base_label, str):
        if base_label in labels:
            return labels.index(base_label)
    else:
        try:
            if 0 <= index(base_label) < len(labels):
                return index(base_label)
        except TypeError:
            pass
    raise ValueError(f"sample {sample.id!r}: base label {base_label!r} is none of its options {', '.join(labels)}")


def _instance(family: str, name: str, params: dict[str, Any], change: Change, images: list) -> Instance:
    changed: list[Any] = []
    for number, image in enumerate(images, start=1):
        try:
            changed.append(change(image))
        except geometric.NotApplicable as error:
            where = f"image {number}: " if len(images) > 1 else ""
            return Instance(family, name, params, (), f"{where}{error}")
    if "band" in params:
        params = params | frequency.audit(images, changed, params["band"], params["cutoff"])
    return Instance(family, name, params, tuple(image for image in changed if image is not None))
