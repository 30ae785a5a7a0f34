"""Rows of branching text: every token sees its own path and nothing else."""

import numpy as np

from vfkit.readout.tree import Row


def _paths() -> tuple[Row, dict[str, int]]:
    row = Row([1, 2, 3])
    ask = row.grow(0, [4, 5])
    red = row.grow(ask, [6])
    blue = row.grow(ask, [7, 8])
    other = row.grow(0, [9])
    nothing = row.grow(other, [])
    return row, {"ask": ask, "red": red, "blue": blue, "other": other, "nothing": nothing}


def test_a_path_reads_as_if_it_were_alone():
    row, nodes = _paths()
    tokens = np.array(row.tokens)
    assert tokens[row.path(nodes["blue"])].tolist() == [1, 2, 3, 4, 5, 7, 8]
    assert tokens[row.path(nodes["other"])].tolist() == [1, 2, 3, 9]
    assert row.depths()[row.path(nodes["blue"])].tolist() == list(range(7))


def test_every_token_sees_exactly_the_tokens_before_it_on_its_path():
    row, nodes = _paths()
    mask, depths = row.mask(), row.depths()
    for node in nodes.values():
        for place in row.places(node):
            expected = row.path(node) & (depths <= depths[place])
            assert (mask[place] == expected).all()
    assert (mask[:3, :3] == np.tri(3, dtype=bool)).all() and not mask[:3, 3:].any()


def test_an_empty_run_ends_where_its_parent_does():
    row, nodes = _paths()
    assert row.last(nodes["nothing"]) == row.last(nodes["other"]) == row.places(nodes["other"])[-1]
    assert row.tokens[row.last(nodes["ask"])] == 5
