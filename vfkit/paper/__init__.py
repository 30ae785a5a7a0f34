"""Published values of the two papers: looked up, set beside our tables, and judged against finished runs."""

from vfkit.paper.counts import VERDICTS, count_verdicts, in_their_units, verdict_finding
from vfkit.paper.hi import beside, beside_scale
from vfkit.paper.ours import kind_of
from vfkit.paper.places import places
from vfkit.paper.reproduced import compare, useful_margin, verdicts
from vfkit.paper.values import DATASETS, FAMILIES, MODELS, SIZELESS, TAPS, canonical, published
from vfkit.paper.vf import VFAT_DATASETS, VFAT_ITEMS, VFAT_MODELS, beside_vfat, neighbours, published_vfat

__all__ = [
    "DATASETS",
    "FAMILIES",
    "MODELS",
    "SIZELESS",
    "TAPS",
    "VERDICTS",
    "VFAT_DATASETS",
    "VFAT_ITEMS",
    "VFAT_MODELS",
    "beside",
    "beside_scale",
    "beside_vfat",
    "canonical",
    "compare",
    "count_verdicts",
    "in_their_units",
    "kind_of",
    "neighbours",
    "places",
    "published",
    "published_vfat",
    "useful_margin",
    "verdict_finding",
    "verdicts",
]
