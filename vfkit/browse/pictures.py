"""Thumbnails: the images that a run read, made again from its data and suite, checked, and kept within a budget."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from vfkit.datasets import DatasetUnavailable
from vfkit.images import ImageError, load_image, open_images
from vfkit.study.rows import image_hash
from vfkit.study.run import Run

SIDE = 128
"""Longest side of a thumbnail, px."""
FAINT = 32
"""Largest change of a pixel, of 255, up to which the difference is a picture of its own: thumbnails would lose it."""

SHOWN, NONE, LEFT_OUT, NOT_REPRODUCED, NO_DATA = (
    "",
    "no image: the model was asked without one",
    "left out: the page's size budget is spent",
    "not reproduced: the image made again is not the one that the run read",
    "the images are not available here",
)


class Album:
    """Thumbnails as data URIs, equal images once, up to a number of bytes."""

    def __init__(self, budget: float):
        self.budget, self.size = budget, 0
        self.pictures: list[str] = []
        self.index: dict[str, int] = {}

    @property
    def full(self) -> bool:
        return self.size >= self.budget

    def add(self, key: str, image: Image.Image) -> int | None:
        """Return the index of a picture, adding it where it is new; None where the album is full."""
        if key not in self.index and not self.full:
            uri = _uri(image)
            self.index[key] = len(self.pictures)
            self.pictures.append(uri)
            self.size += len(uri)
        return self.index.get(key)


def _uri(image: Image.Image) -> str:
    image, file = image.copy(), io.BytesIO()
    image.thumbnail((SIDE, SIDE))
    image.save(file, "WEBP", quality=65, method=2)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()


def illustrate(run: Run, entries: dict[str, dict[str, Any]], names: Sequence[str], album: Album) -> str:
    """Put thumbnails into the forms of a run's samples: all base images first, then perturbed ones sample by sample.

    Args:
        entries: what the run says of each sample, by id, in the order in which they get pictures.
        names: the page's texts: instances are named by their index.
        album: takes the pictures.

    Returns:
        Why there are no images, in a sentence; empty where there are.
    """
    for entry in entries.values():
        for form in entry["forms"]:
            form["pictures"], form["seen"] = [], NO_DATA if form["hash"] else NONE
    try:
        samples = {sample.id: sample for sample in run.config.load_samples()}
    except (DatasetUnavailable, ValueError, OSError, ImportError) as error:
        return f"images are not shown: {str(error).splitlines()[0]}"
    config = run.config
    suite = config.suite()
    kept = run.images()
    stored = {key: part.sort_values("number").png.tolist() for key, part in kept.groupby(["sample_id", "instance"])}
    for forms_of in (lambda forms: forms[:1], lambda forms: forms[1:]):
        for sample_id, entry in entries.items():
            forms = [form for form in forms_of(entry["forms"]) if form["hash"]]
            if album.full and not all(_parts(form)[0] in album.index for form in forms):
                for form in forms:
                    form["seen"] = LEFT_OUT
            elif forms and sample_id in samples:
                _illustrate(samples[sample_id], entry["forms"][0], forms, suite, stored, names, album)
    return ""


def _parts(form: dict[str, Any]) -> list[str]:
    """List the content hashes of a form's images."""
    return form["hash"].split("+")


def _illustrate(sample, base, forms, suite, stored, names, album: Album) -> None:
    try:
        images = open_images(sample)
    except ImageError:
        return
    if image_hash(images) != base["hash"]:
        for form in forms:
            form["seen"] = NOT_REPRODUCED
        return
    made = {"base": images}
    if any(form is not base for form in forms):
        label = base["prediction"]
        instances = suite.instances(sample, label, images) if label is not None else ()
        made |= {one.name: one.images for one in instances}
    for form in forms:
        name = names[form["instance"]]
        if (sample.id, name) in stored:
            made[name] = tuple(load_image(png, sample.id, shrink=False) for png in stored[sample.id, name])
        if name not in made:
            form["seen"] = "not kept: this image was made by an attack, and the run holds no copy"
        elif image_hash(made[name]) != form["hash"]:
            form["seen"] = NOT_REPRODUCED
        else:
            _show(form, images, made[name], album)


def _show(form: dict[str, Any], base: tuple, images: tuple, album: Album) -> None:
    keys = _parts(form)
    pictures = [album.add(key, image) for key, image in zip(keys, images, strict=True)]
    if None in pictures:
        form["seen"] = LEFT_OUT
        return
    form["pictures"], form["seen"] = pictures, SHOWN
    if images is base or [one.size for one in images] != [one.size for one in base]:
        return
    apart = [np.abs(np.asarray(one, int) - np.asarray(other, int)) for one, other in zip(images, base, strict=True)]
    most = max(int(one.max()) for one in apart)
    mean = sum(one.sum() for one in apart) / sum(one.size for one in apart)
    form["change"] = [float(f"{mean:.3g}"), most]
    if 0 < most <= FAINT:
        faint = [Image.fromarray((one * (255 // most)).astype(np.uint8)) for one in apart]
        added = [album.add(f"difference {form['hash']} {i}", ImageOps.autocontrast(one)) for i, one in enumerate(faint)]
        form["difference"] = None if None in added else added
