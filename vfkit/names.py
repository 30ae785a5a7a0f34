"""Errors for unknown names, with the nearest valid one."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.4
"""Similarity (difflib's ratio) from which a name counts as near another."""


def nearest(name: str, valid: Iterable[str], n: int = 1) -> list[str]:
    """Return at most `n` valid names similar to `name`, best first."""
    return difflib.get_close_matches(str(name), list(valid), n=n, cutoff=CUTOFF)


def unknown(what: str, name: str, valid: Iterable[str]) -> ValueError:
    """Make the error for an unknown name: it lists the nearest valid one, and all of them."""
    valid = sorted(valid)
    hint = "".join(f"did you mean {near!r}? " for near in nearest(name, valid))
    return ValueError(f"unknown {what}: {str(name)[:200]!r}; {hint}There are: {', '.join(valid) or 'none'}")
