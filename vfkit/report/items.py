"""The papers' tables and figures as items: what each is made of, and what it needs where no run has it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from vfkit.report.collect import Collected

NAMED = 12  # models or data sets named in a caption


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper.

    Args:
        name: as the paper calls it, and what it shows. needs: what a run must be to give it.
        table: makes its table from the runs; an empty one means that no run has it.
        columns: of the table, those shown. rows: picks rows to show where the whole is long; the file holds all.
        figure: draws the table, where there is something to draw.
        caption: how to read it, with the terms of its columns.
    """

    name: str
    needs: str
    caption: str
    table: Callable[[Collected], pd.DataFrame]
    columns: str | None = None
    rows: Callable[[pd.DataFrame], pd.Series] | None = None
    figure: Callable[[pd.DataFrame], Figure] | None = None
    show_table: bool = True

    @property
    def file(self) -> str:
        """Name of its files: `hi_table_1`."""
        return self.name.split(":")[0].lower().replace(" ", "_").replace(".", "_").replace(",", "")


def present(output, collected: Collected, items: Iterable[Item], display: Callable) -> None:
    """Show items one after the other, and save them; one that no run can give is a line that says what it needs.

    Args:
        output: of `vfkit.output.Output`. display: what shows a table in a notebook.
    """
    for item in items:
        table = item.table(collected)
        if table.empty:
            output.note(f"{item.name}: needs {item.needs}.")
            continue
        output.note(f"{item.name}. {item.caption}")
        if item.figure is not None:
            output.figure(f"{item.file}_figure" if item.show_table else item.file, item.figure(table), table)
        if item.show_table:
            rows = None if item.rows is None else item.rows(table)
            columns = None if item.columns is None else [name for name in item.columns.split() if name in table]
            about = f"{item.name}. {item.caption} {_about(table if rows is None else table[rows])}".strip()
            display(output.table(item.file, table, columns, rows, caption=about))


def _about(table: pd.DataFrame) -> str:
    """Models, data, n and intervals of a table, as its caption says them."""
    words = []
    for column, name in (("model", "Models"), ("dataset", "Data")):
        values = list(dict.fromkeys(table[column].astype(str))) if column in table else []
        words += [f"{name}: {', '.join(values)}"] if 0 < len(values) <= NAMED else []
    for column in ("images", "items", "samples", "done"):
        if column in table and table[column].notna().any():
            low, high = int(table[column].min()), int(table[column].max())
            unit = column.replace("done", "samples")
            words.append(f"n = {low:,} {unit}" if low == high else f"n = {low:,} to {high:,} {unit}")
            break
    words += ["brackets: 95 % intervals"] if any(name.endswith("_low") for name in table) else []
    return "; ".join(words) + "." if words else ""


def wide(table: pd.DataFrame, column: str, values: str, keys: Iterable[str] = ("dataset", "model")) -> pd.DataFrame:
    """One row per data set and model, one column (with its interval) per value of `column`, and how many `images`."""
    keys = list(keys)
    first = table.drop_duplicates(keys)[keys].reset_index(drop=True)
    images = table.groupby(keys)["images"].max().rename("images").reset_index()
    found = first.merge(images, on=keys)
    for name in dict.fromkeys(table[column]):
        own = table[table[column] == name][[*keys, values, f"{values}_low", f"{values}_high"]]
        short = "union" if str(name).startswith("union (6") else name
        found = found.merge(own.rename(columns=lambda n, to=short: n.replace(values, f"{values}_{to}", 1)
                                       if n.startswith(values) else n), on=keys, how="left")  # fmt: skip
    return found
