"""Names that do not exist, each answered by the nearest one that does."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.4
"""Similarity (difflib's ratio) from which a name counts as near another."""


def nearest(name: str, valid: Iterable[str], n: int = 1) -> list[str]:
    """The valid names that are most like `name`, best first: at most `n`, and none where nothing is near."""
    return difflib.get_close_matches(str(name), list(valid), n=n, cutoff=CUTOFF)


def unknown(what: str, name: str, valid: Iterable[str]) -> ValueError:
    """The error for a name that does not exist: names the nearest valid one, and all that there are."""
    valid = sorted(valid)
    hint = "".join(f"did you mean {near!r}? " for near in nearest(name, valid))
    return ValueError(f"unknown {what}: {str(name)[:200]!r}; {hint}There are: {', '.join(valid) or 'none'}")
