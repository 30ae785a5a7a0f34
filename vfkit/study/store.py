"""A run's folder: parts that appear whole or not at all, and what is left of them after any kind of stop.

A chunk's records part is written last and its metadata name the samples that it finishes, so it alone says that the
chunk is done. Whatever else lies around after a kill is removed at the next start.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vfkit.study.schema import SCHEMAS

DATASET_ERRORS = "part-dataset.parquet"  # of rows that gave no sample: belongs to no chunk
_NOTE = b"vfkit"


# --- writing ----------------------------------------------------------------------------------------------------------


def write_atomic(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Let `write` fill a temporary file, then rename it: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must outlive a power cut, before the next file is written
    finally:
        os.close(folder)


def write_part(folder: Path, sample_ids: list[str], records: list[dict], errors: list[dict]) -> None:
    """Write one chunk: its errors, then its records, whose part is the mark that all `sample_ids` are finished."""
    name = f"part-{hashlib.sha256(json.dumps(sample_ids).encode()).hexdigest()[:16]}.parquet"
    if errors:
        _write_table(folder / "errors" / name, "errors", errors)
    _write_table(folder / "records" / name, "records", records, {"samples": sample_ids, "errors": len(errors)})


def write_dataset_errors(folder: Path, errors: list[dict]) -> None:
    if errors:
        _write_table(folder / "errors" / DATASET_ERRORS, "errors", errors)


def write_json(path: Path, content: dict) -> None:
    write_atomic(path, lambda file: file.write(json.dumps(content, indent=2, default=str).encode()))


def _write_table(path: Path, kind: str, rows: list[dict], note: dict | None = None) -> None:
    table = pa.Table.from_pylist(rows, SCHEMAS[kind].with_metadata({_NOTE: json.dumps(note or {})}))
    write_atomic(path, lambda file: pq.write_table(table, file, write_page_checksum=True))


# --- starting and resuming --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder against a second run; the system lets go however the process ends.

    Raises:
        RuntimeError: another process writes to this folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another process is running this study in {folder}; wait for it to end") from None
        yield


class Found(NamedTuple):
    """What finished parts hold: ids of the samples they finish, of those without a base, and the rows of errors."""

    samples: set[str]
    failed: set[str]
    errors: int


def recover(folder: Path) -> Found:
    """Clear away what a stopped run left and say what is finished. Only under `lock`.

    Temporary files and errors parts without their records part are removed. A part that cannot be read, and one whose
    errors part is missing, is renamed to `*.corrupt` with a warning; its samples will be read again.
    """
    for pattern in ("*.tmp", "*/part-*.tmp"):
        for temporary in folder.glob(pattern):
            temporary.unlink()
    samples, failed, total = set(), set(), 0
    for part in _parts(folder, "records"):
        errors = folder / "errors" / part.name
        try:
            records = _read_table(part)
            note = json.loads(records.schema.metadata[_NOTE])
            n_errors = _read_table(errors).num_rows if note["errors"] else 0
            if n_errors != note["errors"]:
                raise ValueError(f"{errors} holds {n_errors} of {note['errors']} rows")
        except Exception as error:  # whatever the damage looks like, the cure is the same
            for path in filter(Path.exists, (part, errors)):
                path.rename(path.with_name(f"{path.name}.corrupt"))
            warnings.warn(f"{part}, or its errors part, is damaged: set aside, to be redone ({error})", stacklevel=3)
            continue
        samples.update(note["samples"])
        failed.update(set(note["samples"]) - set(records["sample_id"].to_pylist()))
        total += n_errors
    for part in _parts(folder, "errors"):
        if part.name != DATASET_ERRORS and not (folder / "records" / part.name).exists():
            part.unlink()
    return Found(samples, failed, total)


# --- reading ----------------------------------------------------------------------------------------------------------


def read(folder: Path, kind: str) -> pd.DataFrame:
    """All finished rows of `records` or `errors`, ordered by sample, with nullable integers and booleans.

    Raises:
        OSError: a part cannot be read; the message names it.
    """
    done = {part.name for part in _parts(folder, "records")} | {DATASET_ERRORS}
    tables = [SCHEMAS[kind].empty_table()]
    for part in _parts(folder, kind):
        if part.name in done:
            try:
                tables.append(_read_table(part).replace_schema_metadata(None))
            except (OSError, pa.ArrowException) as error:
                raise OSError(f"{part} cannot be read ({error}); run the study again and it is redone") from error
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = pa.concat_tables(tables).to_pandas(types_mapper=nullable.get)
    if kind == "records":
        frame["applicable"] = frame["applicable"].astype(bool)  # never missing, and used as a mask
        return frame.sort_values("sample_id", kind="stable", ignore_index=True)  # instances stay in the suite's order
    return frame.sort_values(["sample_id", "stage", "instance"], kind="stable", ignore_index=True)


def _parts(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).glob("part-*.parquet"))


def _read_table(path: Path) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()
