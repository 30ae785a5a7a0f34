"""The frame core of all tables: rows that count, unions of families, and tables of counts, rates and means.

Records in, tables out. In every table

- a row *counts* if its instance applies and was read, and its sample's base image was read;
- a flip is a prediction other than the base row's;
- `<name>_low`, `<name>_high` bound the 95 % interval of `<name>`, from a bootstrap over images (`vfkit.metrics.stats`);
- families come in one order: the noise floor (`identity`), HI's six, their union, then the overlay controls;
- the input is not modified, its order does not matter, and missing columns and doubled rows (two runs in one frame)
  raise ValueError by name.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

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
    """Make the slim frame all tables work on: numbers as float (NaN: none), every row knowing its sample's base row.

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
    """Convert a column to float64, NaN where it is empty."""
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)


def base_value(rows: pd.DataFrame, column: str) -> pd.Series:
    """Value of a column in the base row of each row's sample; NaN without one."""
    return rows["sample"].map(rows[rows.is_base].set_index("sample")[column]).astype(float)


def counted_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the perturbed rows that count."""
    return rows[~rows.is_base & rows.prediction.notna() & rows.base.notna()]


def vulnerable_samples(counted: pd.DataFrame) -> pd.DataFrame:
    """One row per family and sample: image, vulnerable (at least one flip)."""
    grouped = counted.groupby(["family", "sample"], sort=False)
    return grouped.agg(image=("image", "first"), vulnerable=("flip", "any")).reset_index()


def with_union(rows: pd.DataFrame, families: Sequence[str] = HI_FAMILIES) -> pd.DataFrame:
    """The perturbed rows, and those of some families, HI's six by default, once more under the union's name (two
    families make a union)."""
    rows = rows[~rows.is_base]
    present = [family for family in family_order(counted_rows(rows)) if family in families]
    if len(present) < 2:
        return rows
    name = f"union ({', '.join(present)})"
    if set(present) == set(families):
        name = UNION if set(families) == set(HI_FAMILIES) else f"union ({len(families)} families)"
    return pd.concat([rows, rows[rows.family.isin(present)].assign(family=name)], ignore_index=True)


def split_answers(counted: pd.DataFrame) -> pd.DataFrame:
    """Repeat every row: under the answer `all`, and under `kept` or `flipped`."""
    own = np.where(counted.flip, "flipped", "kept")
    return pd.concat([counted.assign(answer="all"), counted.assign(answer=own)], ignore_index=True)


def same_answers(records: pd.DataFrame) -> pd.DataFrame:
    """Tell which answers an instance shares with its base, row by row as `rows_of`.

    Returns:
        `kept_option` (the scored one), `kept_mcq`, `kept_open` (the generated texts, without case, punctuation and
        spacing; empty where one was not generated), and `kept_strict`: all that there are.
    """
    rows = rows_of(records)
    kept = pd.DataFrame({"kept_option": ~rows.flip}, index=rows.index)
    for prompt in ("mcq", "open"):
        texts = records.get(f"text_{prompt}", pd.Series(None, index=records.index, dtype=object))
        rows["text"] = [_plain(text) for text in texts]
        base = rows["sample"].map(rows[rows.is_base].set_index("sample")["text"])
        same = rows["text"].eq(base).astype(object)
        kept[f"kept_{prompt}"] = same.where(rows["text"].notna() & base.notna(), None)
    kept["kept_strict"] = kept.fillna(True).astype(bool).all(axis=1)
    return kept


def _plain(text) -> str | None:
    """The words of a text: case, punctuation and spacing do not make another answer."""
    return " ".join(re.findall(r"\w+", text.casefold())) if isinstance(text, str) else None


def twice(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Repeat every row: under `all`, and under its own value of the column."""
    return pd.concat([rows.assign(**{column: "all"}), rows], ignore_index=True)


def family_order(rows: pd.DataFrame) -> list[str]:
    """Families of the rows except the base, in the order of all tables; unknown ones come last, as they appear."""
    known = {family: i for i, family in enumerate(_ORDER)}
    present = [family for family in rows["family"].unique() if family != "base"]
    return sorted(present, key=lambda family: known.get(UNION if family.startswith("union (") else family, len(_ORDER)))


def pooled_family(families: pd.Series) -> list[str]:
    """Find the union among these families, or without one the last of HI's: a list of one name, or none."""
    present = list(dict.fromkeys(families))
    return [f for f in present if f.startswith("union (")] or [f for f in present if f in HI_FAMILIES][-1:]
