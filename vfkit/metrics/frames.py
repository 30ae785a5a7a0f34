"""The frame core of all tables: rows that count, unions of families, and tables of counts, rates and means.

Records in, tables out. In every table

- a row *counts* if its instance applies and was read, and its sample's base image was read;
- a flip is a prediction other than the base row's;
- `<name>_low`, `<name>_high` bound the 95 % interval of `<name>`, from a bootstrap over images (`vfkit.metrics.stats`);
- families come in one order: the noise floor (`identity`), HI's six, their union, then the overlay controls;
- the input is not modified, its order does not matter, and missing columns and doubled rows (two runs in one frame)
  raise ValueError by name.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from vfkit.metrics import stats
from vfkit.perturb import HI_FAMILIES

UNION = "union (6 HI families)"
ANSWERS = ("all", "kept", "flipped")
ROW = ("sample_id", "image_id", "family", "instance", "applicable", "prediction")
_ORDER = ("identity", *HI_FAMILIES, UNION, "random_text", "box_overlay")


def need(frame: pd.DataFrame, of: str, *columns: str) -> None:
    """Raise ValueError, naming them, unless a frame (`of` says what it should hold) has all these columns."""
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ValueError(f"the {of} lack the columns {', '.join(missing)}")


def require(records: pd.DataFrame, *columns: str) -> None:
    """Raise ValueError unless the records have these columns and no row occurs twice."""
    need(records, "records", *ROW, *columns)
    key = [records["sample_id"], records["family"], records["instance"].where(records["family"] != "base", "base")]
    doubled = pd.concat(key, axis=1).duplicated()
    if doubled.any():
        row = records[doubled.to_numpy()].iloc[0]
        raise ValueError(f"sample {row.sample_id!r} has {row.instance!r} twice: a table takes the records of one run")


def rows_of(records: pd.DataFrame, *needs: str) -> pd.DataFrame:
    """The slim frame all tables work on: numbers as float (NaN: none), every row knowing its sample's base row.

    Columns: sample, image, family, is_base, prediction (NaN where the instance does not apply), base (the base row's
    prediction), flip, one (1.0: the row itself), and those of `needs`; `margin` brings base_row, the base row's own.
    """
    require(records, *needs)
    rows = pd.DataFrame({"sample": records["sample_id"], "image": records["image_id"], "family": records["family"]})
    rows["image"] = rows["image"].fillna(rows["sample"])
    rows["is_base"] = rows["family"] == "base"
    applicable = records["applicable"].fillna(False).astype(bool)
    rows["prediction"] = numbers(records["prediction"].where(applicable))
    for name in ("answer", "n_options", "margin", "base_margin"):
        if name in needs:
            rows[{"base_margin": "base_label"}.get(name, name)] = numbers(records[name])
    if "tied" in needs:
        rows["tied"] = records["tied"].astype("boolean").fillna(False).astype(bool)
    if "category" in needs:
        rows["category"] = records["category"].fillna("").astype(str)
    rows = rows.reset_index(drop=True)
    rows["base"] = base_value(rows, "prediction")
    if "margin" in needs:
        rows["base_row"] = base_value(rows, "margin")
    rows["flip"] = rows["prediction"].notna() & rows["base"].notna() & (rows["prediction"] != rows["base"])
    rows["one"] = 1.0
    return rows


def numbers(column: pd.Series) -> np.ndarray:
    """A column as float64, NaN where it is empty."""
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)


def base_value(rows: pd.DataFrame, column: str) -> pd.Series:
    """For every row, its sample's base row's value; NaN without one."""
    return rows["sample"].map(rows[rows.is_base].set_index("sample")[column]).astype(float)


def counted_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The perturbed rows that count."""
    return rows[~rows.is_base & rows.prediction.notna() & rows.base.notna()]


def vulnerable_samples(counted: pd.DataFrame) -> pd.DataFrame:
    """One row per family and sample: image, vulnerable (at least one flip)."""
    grouped = counted.groupby(["family", "sample"], sort=False)
    return grouped.agg(image=("image", "first"), vulnerable=("flip", "any")).reset_index()


def with_union(rows: pd.DataFrame) -> pd.DataFrame:
    """The perturbed rows, and those of HI's families once more under the union's name (two families make a union)."""
    rows = rows[~rows.is_base]
    present = [family for family in family_order(counted_rows(rows)) if family in HI_FAMILIES]
    if len(present) < 2:
        return rows
    name = UNION if len(present) == len(HI_FAMILIES) else f"union ({', '.join(present)})"
    return pd.concat([rows, rows[rows.family.isin(present)].assign(family=name)], ignore_index=True)


def split_answers(counted: pd.DataFrame) -> pd.DataFrame:
    """Every row under the answer `all`, and once more under `kept` or `flipped`."""
    own = np.where(counted.flip, "flipped", "kept")
    return pd.concat([counted.assign(answer="all"), counted.assign(answer=own)], ignore_index=True)


def twice(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Every row under `all`, and once more under its own value of the column."""
    return pd.concat([rows.assign(**{column: "all"}), rows], ignore_index=True)


def family_order(rows: pd.DataFrame) -> list[str]:
    """Families present but the base, in the order of all tables; unknown ones come last, as they appear."""
    known = {family: i for i, family in enumerate(_ORDER)}
    present = [family for family in rows["family"].unique() if family != "base"]
    return sorted(present, key=lambda family: known.get(UNION if family.startswith("union (") else family, len(_ORDER)))


def pooled_family(families: pd.Series) -> list[str]:
    """The union among these families; without one the last of HI's families, as a list of one name or none."""
    present = list(dict.fromkeys(families))
    return [f for f in present if f.startswith("union (")] or [f for f in present if f in HI_FAMILIES][-1:]


def by_family(rows: pd.DataFrame, **axes: Sequence[str]) -> pd.DataFrame:
    """A table without columns yet: a row per family, or per combination with further axes (`answer=ANSWERS`)."""
    if not axes:
        return pd.DataFrame(index=pd.Index(family_order(rows), name="family", dtype=str))
    index = pd.MultiIndex.from_product([family_order(rows), *axes.values()], names=["family", *axes])
    return pd.DataFrame(index=index)


def with_interval(table: pd.DataFrame, name: str, rates: pd.DataFrame) -> pd.DataFrame:
    """The table with `name`, `name_low`, `name_high` from a frame that `stats` returns."""
    return table.assign(**{name: rates["value"], f"{name}_low": rates["low"], f"{name}_high": rates["high"]})


def with_counts(table: pd.DataFrame, *counts: str) -> pd.DataFrame:
    """The table with these columns as integers, missing ones 0, and its index as columns."""
    table = table.assign(**{name: table[name].fillna(0).astype(int) for name in counts})
    return table.reset_index() if table.index.names != [None] else table


def intervals(table: pd.DataFrame, rows: pd.DataFrame, ratios: Mapping[str, tuple]) -> pd.DataFrame:
    """The table with `name`, `name_low`, `name_high` for each name: sum(top) / sum(bottom) by the table's own keys;
    of four columns, the difference of two such ratios. Rows in which one is not finite are left out.
    """
    names = ["name", *table.index.names]
    keys, parts = [*table.index.names, "image"], []
    for name, columns in ratios.items():
        there = np.isfinite(np.stack(columns).astype(float)).all(axis=0)
        part = rows[keys].assign(**{str(i): np.where(there, column, 0.0) for i, column in enumerate(columns)})
        parts.append(part.groupby(keys, sort=False).sum().reset_index().assign(name=name))
    sums = pd.concat(parts, ignore_index=True)
    groups = pd.MultiIndex.from_frame(sums[names])
    columns = [sums[str(i)] for i in range(len(columns))]
    found = (stats.ratio if len(columns) == 2 else stats.difference)(*columns, sums.image, groups)
    found.index = pd.MultiIndex.from_tuples(found.index, names=names)
    for name in ratios:
        own = pd.MultiIndex.from_tuples([(name, *key) for key in table.index], names=names)
        part = found.reindex(own).set_axis(table.index)
        table = table.assign(**{name: part["value"], f"{name}_low": part["low"], f"{name}_high": part["high"]})
    return table
