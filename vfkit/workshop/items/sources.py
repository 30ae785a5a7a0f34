"""Seeds for new items: pairs of images against expectation and ordinary, from VLind-Bench and WEIRD (VF 3.1)."""

import json
from pathlib import Path
from typing import Any

from vfkit.datasets import vlind, weird
from vfkit.datasets.base import RowError, distinct
from vfkit.datasets.vfat import copy_image
from vfkit.names import unknown

SOURCES = ("vlind", "weird")


def write_seeds(source: str, path: str | Path, out: str | Path) -> tuple[int, list[RowError]]:
    """Write what `generate` reads: one line a pair of images, which are copied to `images/` beside the file.

    Of VLind-Bench the annotation is the statement true of each image; of WEIRD its caption, or
    else what kind of common sense its image breaks; its pairs are those of `pair_id`.

    Args:
        source: `vlind` or `weird`.
        path: where that data set lies, in any form its loader reads.

    Returns:
        How many seeds were written, and the rows that give none.

    Raises:
        ValueError: unknown source.
        FileExistsError: `out` exists.
    """
    if source not in SOURCES:
        raise unknown("source", source, SOURCES)
    out = Path(out).expanduser()
    if out.exists():
        raise FileExistsError(f"{out} is there already; give another name, or delete it")
    pairs, errors = (_vlind if source == "vlind" else _weird)(Path(path).expanduser())
    (out.parent / "images").mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for item_id, atypical, ordinary, annotation, category in pairs:
        try:
            images = {
                kind: f"images/{copy_image(image, out.parent / 'images', f'{source}_{len(lines):05d}_{kind}')}"
                for kind, image in (("atypical", atypical), ("ordinary", ordinary))
            }
        except (ValueError, OSError) as error:
            errors.append(RowError(item_id, str(error)))
            continue
        seed = {"id": f"{source}-{item_id}"} | images | {"annotation": annotation, "category": category}
        lines.append(json.dumps(seed, ensure_ascii=False) + "\n")
    out.write_text("".join(lines), encoding="utf-8")
    return len(lines), errors


Pair = tuple[str, Any, Any, str, str]  # id, image against expectation, ordinary image, annotation, category


def _vlind(path: Path) -> tuple[list[Pair], list[RowError]]:
    items, errors, _ = vlind.read(path)
    kept, again = distinct(items)
    return [
        (one.id, one.atypical, one.ordinary, f"It shows: {one.truth} The second image shows: {one.trap}", one.category)
        for one in kept
    ], [*errors, *again]


def _weird(path: Path) -> tuple[list[Pair], list[RowError]]:
    pictures, errors = weird.read(path)
    pairs, alone = weird.pairs(pictures)
    return [(odd.id, odd.image, usual.image, odd.caption or _kind(odd), odd.category) for odd, usual in pairs], [
        *errors,
        *alone,
    ]


def _kind(picture: weird.Picture) -> str:
    return ": ".join(filter(None, (picture.group, picture.subgroup))) or "against common sense"
