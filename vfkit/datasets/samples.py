"""From rows to samples: checked fields, answers in any form, and an error for each row that gives no sample."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from vfkit.datasets.base import RowError, Rows
from vfkit.sample import LETTERS, Sample

Asked = tuple[Sample, str]
"""A multiple-choice sample without its answer, and the answer as its file gives it; empty without one."""


OPTIONAL = frozenset({"hint", "category", "answer", "type", *LETTERS})
"""Columns of tables whose cells may be empty."""


def collect(rows: Iterable[tuple[str, Any]], make: Callable[[str, Any], Sample]) -> Rows:
    """Samples of all rows that give one, and an error for each of the others.

    Args:
        rows: an id for each, and the row, or the exception that reading it has raised.
        make: turns id and row into a sample; what the row lacks it says by a ValueError.
    """
    samples, errors = _made(rows, make)
    return Rows(samples, errors)


def collect_choices(rows: Iterable[tuple[str, Any]], make: Callable[[str, Any], Asked]) -> Rows:
    """The same for the multiple choice of one file, whose answers are read together (see `decide`)."""
    asked, errors = _made(rows, make)
    decided = decide([(answer, sample.options) for sample, answer in asked])
    samples = []
    for (sample, _), index in zip(asked, decided, strict=True):
        if isinstance(index, ValueError):
            errors.append(RowError(sample.id, str(index)))
        else:
            samples.append(replace(sample, answer=index))
    return Rows(samples, errors)


def _made(rows: Iterable[tuple[str, Any]], make: Callable[[str, Any], Any]) -> tuple[list[Any], list[RowError]]:
    made, errors = [], []
    for row_id, row in rows:
        try:
            if isinstance(row, Exception):
                raise row
            made.append(make(row_id, row))
        except (ValueError, OSError) as error:
            errors.append(RowError(row_id, str(error)))
    return made, errors


# --- fields -----------------------------------------------------------------------------------------------------------


def field(row: dict, *names: str) -> str:
    """The text under the first of these names that the row has; numbers become text.

    Raises:
        ValueError: there is none, it is blank, or it is no text that can be written (broken UTF-8).
    """
    value = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"its {names[0]} is {str(value)[:200]}, not a text")
    text = str(value)
    if not text.strip():
        raise ValueError(f"it has no {names[0]}")
    return sound(text, names[0])


def sound(text: str, name: str) -> str:
    """The text itself, where it can be written as UTF-8.

    Raises:
        ValueError: it cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"its {name} is not sound UTF-8: {text[:200]!r}") from None
    return text


def nan_as_empty(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The rows of a text table with its empty cells empty, where pandas has written them as `nan`.

    It writes all of them so: in a table that has an empty cell too, `nan` is a text like any other.
    """
    cells = [row[name] for _, row in rows if isinstance(row, dict) for name in row if name in OPTIONAL]
    if "nan" not in cells or any(isinstance(cell, str) and not cell.strip() for cell in cells):
        return rows
    return [(row_id, row if isinstance(row, Exception) else _without_nan(row)) for row_id, row in rows]


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: "" for name, cell in row.items() if name in OPTIONAL and cell == "nan"}


def listed(value: Any, name: str) -> list[str]:
    """The texts of a cell: a list of them, or a text that holds one in Python's or JSON's notation; none if empty.

    Raises:
        ValueError: it is something else, or a text in it is empty.
    """
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip() or "[]")
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise ValueError(f"its {name} are no list: {value[:200]!r}") from None
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError(f"its {name} are no list of texts: {str(value)[:200]}")
    return [sound(one, name) for one in value]


def lettered(row: dict[str, Any], letters: Sequence[str] = LETTERS) -> tuple[str, ...]:
    """The options in the columns `A`, `B` ... , as many as are not empty.

    Args:
        letters: the columns' names.

    Raises:
        ValueError: there are none, or there is a gap.
    """
    cells = [str(row[letter]) if row.get(letter) is not None else "" for letter in letters]
    there = [letter for letter, cell in zip(letters, cells, strict=True) if cell.strip()]
    if not there or there != list(letters[: len(there)]):
        raise ValueError(
            f"its options are {', '.join(there) or 'empty'}; they must go from {letters[0]} on without a gap"
        )
    return tuple(sound(cell, f"option {letter}") for letter, cell in zip(there, cells, strict=False))


# --- answers ----------------------------------------------------------------------------------------------------------

FORMS = {
    "letter": "by its letter",
    "text": "by its text",
    "index": "by its index from 0",
    "number": "by its number from 1",
}
"""Ways in which a file may name the true option."""


def readings(answer: str, options: Sequence[str]) -> dict[str, int]:
    """The option that an answer means in each form in which it means one.

    Raises:
        ValueError: it means none of the options, or a text that several of them share.
    """
    text = answer.strip()
    shown = [option.strip() for option in options]
    if re.fullmatch(r"[0-9]+\.0", text) and text not in shown:
        text = text[:-2]  # a whole number as pandas writes it in a column that has empty cells
    same = [index for index, option in enumerate(options) if option.strip() == text]
    meant = {}
    if len(text) == 1 and text.upper() in LETTERS[: len(options)]:
        meant["letter"] = LETTERS.index(text.upper())
    if len(same) == 1:
        meant["text"] = same[0]
    if re.fullmatch("[0-9]{1,3}", text):
        meant |= {"index": int(text)} if int(text) < len(options) else {}
        meant |= {"number": int(text) - 1} if 1 <= int(text) <= len(options) else {}
    if not meant and len(same) > 1:
        raise ValueError(f"its answer {answer[:200]!r} is the text of {len(same)} options")
    if not meant:
        raise ValueError(f"its answer {answer[:200]!r} is none of its {len(options)} options")
    return meant


def decide(rows: Sequence[tuple[str, Sequence[str]]]) -> list[int | None | ValueError]:
    """The true option of each row of a file; None where it has no answer.

    A file gives its answers in one form, as a rule: forms in which every answer means an option count, and an answer
    that reads two ways is read in them. Where no form fits all of them, each answer must read one way. Numbers count
    from 1 only in a file whose answers are all numbers, of which one is too large to count from 0.

    Args:
        rows: an answer and its options.

    Returns:
        An index, None, or the error that says what is wrong: an answer that means no option, or, with nothing in the
        file that tells, more than one.
    """
    meant: list[dict[str, int] | None | ValueError] = []
    for answer, options in rows:
        try:
            meant.append(readings(answer, options) if answer.strip() else None)
        except ValueError as error:
            meant.append(error)
    read = [each for each in meant if isinstance(each, dict)]
    fitting = {form for form in FORMS if all(form in each for each in read)}
    if fitting != {"number"}:
        fitting.discard("number")
    return [_decided(*row, each, fitting) for row, each in zip(rows, meant, strict=True)]


def _decided(answer: str, options: Sequence[str], meant: dict | None | ValueError, fitting: set[str]) -> Any:
    if not isinstance(meant, dict):
        return meant
    forms = [form for form in meant if form in fitting] or [form for form in meant if form != "number"]
    if not forms:
        return ValueError(f"its answer {answer[:200]!r} is none of its {len(options)} options")
    if len({meant[form] for form in forms}) == 1:
        return meant[forms[0]]
    ways = ", ".join(f"{LETTERS[meant[form]]} {FORMS[form]}" for form in forms)
    return ValueError(f"its answer {answer[:200]!r} reads {len(forms)} ways ({ways}), and no other row tells which")
