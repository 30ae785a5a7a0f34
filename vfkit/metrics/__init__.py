"""Records in, tidy tables out: no model, no files. Every table carries its n and its intervals."""

from vfkit.metrics.labels import (
    UNION,
    accuracy_table,
    compare_table,
    flip_table,
    margin_table,
    overlay_table,
    rescore,
    rule_table,
    transition_table,
)
from vfkit.metrics.summary import finding

__all__ = [
    "UNION",
    "accuracy_table",
    "compare_table",
    "finding",
    "flip_table",
    "margin_table",
    "overlay_table",
    "rescore",
    "rule_table",
    "transition_table",
]
