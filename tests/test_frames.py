"""A table is made from frames that runs give: one of another kind is refused by name, whatever makes the table."""

import inspect

import pandas as pd
import pytest

from vfkit import metrics


def _asks_for(name: str) -> list[bool]:
    """Of the arguments without default: is it a frame?"""
    make = getattr(metrics, name)
    parameters = inspect.signature(make).parameters.values() if callable(make) else ()
    return ["DataFrame" in str(each.annotation) for each in parameters if each.default is each.empty and each.kind < 2]


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"x": [1]})], ids=["empty", "another"])
@pytest.mark.parametrize("name", [name for name in metrics.__all__ if any(_asks_for(name))])
def test_a_frame_of_another_kind_is_refused_by_what_it_lacks(name, frame):
    frame = [frame] if name == "across_runs" else frame
    with pytest.raises(ValueError, match="lack|do not tell the rows apart"):
        getattr(metrics, name)(*(frame if is_one else "paper" for is_one in _asks_for(name)))
