"""The benchmark's table with ratios, and the README's figures."""

from pathlib import Path
from typing import Any

import pandas as pd

MARKS = ("<!-- bench: figures -->", "<!-- bench: end -->")


def table(result: dict[str, Any]) -> pd.DataFrame:
    """Tabulate one row per size, task and way: seconds, images per second, encodes, prefills, peak_mb, and `times`: its
    seconds over the engine's."""
    rows = pd.DataFrame(result["rows"])
    engine = rows[rows.way == "engine"].set_index(["size", "task"]).seconds
    own = pd.MultiIndex.from_frame(rows[["size", "task"]]).map(engine)
    rows["images_per_second"] = (rows.images / rows.seconds).round(2)
    rows["times"] = (rows.seconds / own).round(3)
    return rows


def sentences(result: dict[str, Any]) -> str:
    """Write the README's figures: a table in Markdown and a line that names the machine."""
    frame = table(result).set_index(["size", "task", "way"])
    lines = ["| model | task | naive | engine | faster than naive | of the limit | encodes: naive, engine |"]
    lines.append("|---|---|---|---|---|---|---|")
    for size, task in dict.fromkeys(zip(*map(frame.index.get_level_values, ("size", "task")), strict=True)):
        naive, engine, limit = (frame.loc[(size, task, way)] for way in ("naive", "engine", "limit"))
        lines.append(
            f"| {size} | {task} | {naive.seconds:.1f} s | {engine.seconds:.1f} s "
            f"| {naive.seconds / engine.seconds:.1f} times | {engine.seconds / limit.seconds:.2f} times "
            f"| {naive.encodes:.0f}, {engine.encodes:.0f} |"
        )
    where, n = result["machine"]["cpu"], frame["images"].max()
    lines += ["", f"{n} images, on {where}, {result['device']}, {result['threads']} threads, float32."]
    return "\n".join(lines)


def write_readme(readme: Path, result: dict[str, Any]) -> None:
    """Put the figures between the README's marks.

    Raises:
        ValueError: the marks do not occur once each and in order.
    """
    text = readme.read_text()
    start, end = (text.find(mark) for mark in MARKS)
    if start < 0 or end < start or any(text.count(mark) != 1 for mark in MARKS):
        raise ValueError(f"{readme.name} needs the lines {' and '.join(map(repr, MARKS))}, once each and in this order")
    readme.write_text(f"{text[: start + len(MARKS[0])]}\n{sentences(result)}\n{text[end:]}")
