"""Rows of branching text: one image prefix, then every prompt on it, then every answer to each prompt.

A row is one token sequence with a mask in which a token sees only its own branch, back to the root. One forward pass
over a row therefore equals separate passes over all its paths, with the image read once.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int


class Row:
    """A tree of token runs laid out in one sequence. Node 0 is the prefix; a node may be empty."""

    def __init__(self, prefix: Sequence[int]):
        self.tokens = list(prefix)
        self.parent, self.start, self.length, self.offset = [0], [0], [len(prefix)], [0]

    def grow(self, parent: int, tokens: Sequence[int]) -> int:
        """Append a run of tokens that continues `parent`; returns the new node."""
        self.parent.append(parent)
        self.start.append(len(self.tokens))
        self.length.append(len(tokens))
        self.offset.append(self.offset[parent] + self.length[parent])
        self.tokens += tokens
        return len(self.parent) - 1

    def places(self, node: int) -> range:
        """Places of the node's tokens in the sequence."""
        return range(self.start[node], self.start[node] + self.length[node])

    def last(self, node: int) -> int:
        """Place of the last token on the path that ends with `node`."""
        while not self.length[node]:
            node = self.parent[node]
        return self.places(node)[-1]

    def depths(self) -> Int[np.ndarray, " token"]:
        """Index of each token on its own path from the root: its position in a sequence of that path only."""
        return np.concatenate([np.arange(n) + offset for n, offset in zip(self.length, self.offset, strict=True)])

    def path(self, node: int) -> Bool[np.ndarray, " token"]:
        """Mask of the tokens on the path from the root to the end of `node`."""
        seen = np.zeros(len(self.tokens), dtype=bool)
        while True:
            seen[self.start[node] : self.start[node] + self.length[node]] = True
            if node == 0:
                return seen
            node = self.parent[node]

    def mask(self) -> Bool[np.ndarray, "token token"]:
        """Attention mask: each token (row) sees those before it on its own path, and itself (columns)."""
        mask = np.zeros((len(self.tokens),) * 2, dtype=bool)
        for node in range(len(self.parent)):
            own = self.places(node)
            mask[own.start : own.stop] = self.path(node)
            mask[own.start : own.stop, own.start : own.stop] = np.tri(len(own), dtype=bool)
        return mask
