"""A collection of V-FAT items: several files made one, and its composition beside VF's (VF 3.1)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from vfkit.datasets import vfat
from vfkit.datasets.base import RowError
from vfkit.datasets.vfat_items import CATEGORIES, LEVELS
from vfkit.paper import published
from vfkit.sample import Sample


def merge(files: Sequence[str | Path], out: str | Path) -> tuple[list[Sample], list[RowError]]:
    """Write the items of several V-FAT files as one, their images beside it.

    Returns:
        The samples written, and the lines that give none.

    Raises:
        ValueError: an item of one file has the id of an item of another (all of them are named).
        FileNotFoundError: there is no such file.
        FileExistsError: `out` exists.
    """
    samples: list[Sample] = []
    errors: list[RowError] = []
    owner: dict[str, str] = {}
    shared = []
    for file in files:
        rows = vfat.load(file)
        for item in dict.fromkeys(sample.meta["item"] for sample in rows.samples):
            if owner.setdefault(item, str(file)) != str(file):
                shared.append(f"{item!r} of {owner[item]} and {file}")
        samples += rows.samples
        errors += rows.errors
    if shared:
        raise ValueError(f"items with the same id: {', '.join(shared)}; rename those of one file first")
    vfat.write(out, samples)
    return samples, errors


def composition(samples: Sequence[Sample]) -> pd.DataFrame:
    """How many items and instances a collection holds, beside the 13 counts that VF gives of its own.

    An instance is a question of VF's levels (L1 to L3); an image group is an item with both images; a subcategory is a
    source's own name for the kind (`meta["subgroup"]` or `meta["concept"]`).

    Returns:
        `count`, `ours` (missing where a collection has none, as of models), `published`, `where` in VF, `note`.
    """
    asked = [sample for sample in samples if sample.meta["level"] in LEVELS]
    categories = Counter(sample.category for sample in asked)
    items = {sample.meta["item"] for sample in asked}
    levels = {(sample.meta["item"], sample.meta["level"]) for sample in asked}
    groups = {item for item in items if (item, "L2") in levels and levels & {(item, "L1"), (item, "L3")}}
    kinds = {(s.category, s.meta.get("subgroup") or s.meta.get("concept")) for s in asked}
    ours = {category: categories[category] for category in CATEGORIES} | {
        "instances_total": len(asked),
        "instances_total_intro": len(asked),
        "image_groups": len(groups),
        "source_samples_approx": len(items),
        "subcategories": len({kind for kind in kinds if kind[1]}),
        "instances_per_source_item": len(asked) / len(items) if items else 0,
    }
    theirs = published(paper="VF", dataset="V-FAT", metric=["count", "category_count"])
    others = [category for category in categories if category not in CATEGORIES]
    table = pd.DataFrame(
        {
            "count": theirs["family"],
            "ours": [ours.get(name) for name in theirs["family"]],
            "published": theirs["value"],
            "where": "VF " + theirs["where"],
            "note": theirs["note"],
        }
    )
    more = pd.DataFrame({"count": others, "ours": [categories[one] for one in others], "note": "not a category of VF"})
    return pd.concat([table, more], ignore_index=True) if others else table
