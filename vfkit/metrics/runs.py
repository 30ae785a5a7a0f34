"""Mean and SD of a table over several runs of a study on other samples (METHODS 15)."""

from collections.abc import Sequence

import pandas as pd

from vfkit.metrics.frames import need


def across_runs(tables: Sequence[pd.DataFrame], by: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean and SD over runs, row by row, of a table that every run has.

    Args:
        tables: the same table of each run, such as `[run.table("flips") for run in runs]`; the runs should share no
            sample (`StudyConfig(subset=r)`).
        by: the columns that tell a table's rows apart; None takes those that hold texts or truth values.

    Returns:
        One row per combination of `by`, in the first table's order. `runs`: how many tables have the row. Whole numbers
        (counts) become the sum over runs, so that they stay the n that the rates rest on. Of every other number the
        mean over runs, and `<name>_sd`, the sample SD (NaN for a single run); both are NaN where a run has none.
        Intervals of single runs (`<name>_low`, `<name>_high`) are left out.

    Raises:
        ValueError: no table, tables with other columns, or rows that `by` does not tell apart.
    """
    if not tables:
        raise ValueError("no table is given")
    first = tables[0]
    if any(list(table.columns) != list(first.columns) for table in tables):
        raise ValueError("the tables have other columns: they must be the same table of several runs")
    need(first, "tables", *(by or ()))
    number = {name: pd.api.types.is_numeric_dtype(first[name]) for name in first}
    number = {name: is_one and not pd.api.types.is_bool_dtype(first[name]) for name, is_one in number.items()}
    by = [name for name in first if not number[name]] if by is None else list(by)
    if not by or any(table.duplicated(by).any() for table in tables):
        raise ValueError(f"the columns {', '.join(by) or '(none)'} do not tell the rows apart: give others as by=")

    groups = pd.concat(tables, ignore_index=True).groupby(by, sort=False, dropna=False)
    pooled = groups.size().rename("runs").to_frame()
    for name in first.columns.difference(by, sort=False):
        if not number[name] or name.endswith(("_low", "_high")):
            continue
        if all(pd.api.types.is_integer_dtype(table[name]) for table in tables):
            pooled[name] = groups[name].sum()
        else:
            pooled[name] = groups[name].mean(skipna=False)
            pooled[f"{name}_sd"] = groups[name].std(skipna=False)
    return pooled.reset_index()
