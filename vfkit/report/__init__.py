"""The report over all finished runs: both papers' tables and figures in their own axes (notebook 07)."""

from vfkit.report.collect import Collected
from vfkit.report.hi import ANSWERS, POPE, SCALE, SPECTRAL, STATES, transition_items
from vfkit.report.items import Item, present
from vfkit.report.vf import vfat_items

__all__ = [
    "ANSWERS",
    "POPE",
    "SCALE",
    "SPECTRAL",
    "STATES",
    "Collected",
    "Item",
    "present",
    "transition_items",
    "vfat_items",
]
