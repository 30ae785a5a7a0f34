"""Storage of a run: parts that appear whole or not at all, and their recovery after a stop.

A chunk's records part is written last and its metadata name the samples that it finishes, so only this part says that
the chunk is done. Other files left by a killed process are removed at the next start. Parts are called
`part-<chunk>-<content>.parquet`, the content's digest being what tells a damaged one.
"""

import contextlib
import errno
import hashlib
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from vfkit.study.schema import INSIDE, SCHEMAS

DATASET = "dataset"  # in place of a chunk: errors of rows that gave no sample
BESIDE = (
    "samples",
    "errors",
    "vectors",
    "controls",
    "images",
    *INSIDE,
)  # kinds of parts that may lie beside a chunk's records
STAGED = "staged"  # where workers in other processes write parts that are not the run's yet
_NOTE = b"vfkit"


# --- writing ----------------------------------------------------------------------------------------------------------


def write_atomic(path: Path, content: bytes) -> None:
    """Write to a temporary file, then rename it: a reader sees the old file or the whole new one.

    Raises:
        OSError: the disk is full or cannot be written; the message names the file, of which no half is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _settle(path.parent)
    except OSError as error:  # of a full disk the system does not say which
        raise OSError(error.errno, f"{error.strerror or error}, while writing", str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Make a rename durable before the next file is written."""
    if os.name == "nt":  # folders cannot be opened there
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_part(folder: Path, sample_ids: list[str], records: list[dict], **beside: list[dict]) -> None:
    """Write one chunk: first the other kinds (`BESIDE`), then the records, which mark `sample_ids` as finished."""
    chunk = _digest(json.dumps(sample_ids).encode())
    for kind, rows in beside.items():
        if rows:
            _write_table(folder, kind, chunk, rows)
    counts = {kind: len(rows) for kind, rows in beside.items()}
    _write_table(folder, "records", chunk, records, {"samples": sample_ids, "beside": counts})


def staging(folder: Path, name: str) -> Path:
    """Folder in which a worker process writes its part until the holder of the lock adopts it."""
    return folder / STAGED / name


def adopt(folder: Path, staged: Path) -> None:
    """Move a staged part into the run, its records last, as `write_part` does. Only under `lock`; the parts
    of an abandoned worker are never adopted."""
    for kind in (*BESIDE, "records"):
        for part in _parts(staged, kind):
            (folder / kind).mkdir(exist_ok=True)
            os.replace(part, folder / kind / part.name)
            _settle(folder / kind)
    shutil.rmtree(staged, ignore_errors=True)


def write_dataset_errors(folder: Path, errors: list[dict]) -> None:
    """Write the errors of the data's rows; the same rows give the same file."""
    if errors:
        _write_table(folder, "errors", DATASET, errors)


def write_json(path: Path, content: dict) -> None:
    write_atomic(path, json.dumps(content, indent=2, default=str).encode())


def _write_table(folder: Path, kind: str, chunk: str, rows: list[dict], note: dict | None = None) -> None:
    table = pa.Table.from_pylist(rows, SCHEMAS[kind].with_metadata({_NOTE: json.dumps(note or {})}))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content = buffer.getvalue().to_pybytes()
    write_atomic(folder / kind / f"part-{chunk}-{_digest(content)}.parquet", content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# --- starting and resuming --------------------------------------------------------------------------------------------


class Locked(RuntimeError):
    """A run's folder that another process writes to."""


class ReadOnly(PermissionError):
    """A run's folder that cannot be written."""


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock the folder against a second run; the lock ends with the process.

    Raises:
        Locked: another process writes to this folder.
        ReadOnly: the folder cannot be written.
    """
    held = FileLock(folder / ".lock", timeout=0.2)  # `is_locked` holds it for an instant
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:
        raise Locked(f"another process is running this study in {folder}; wait for it to end") from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise ReadOnly(f"{folder} cannot be written ({error.strerror}); give another `out`") from error
        raise
    try:
        yield
    finally:
        held.release()


def is_locked(folder: Path) -> bool:
    """Whether a process holds the folder's lock. It is tried for an instant, which `lock` waits for."""
    held = FileLock(folder / ".lock", blocking=False)
    if not (folder / ".lock").exists():
        return False
    try:
        held.acquire()
    except (Timeout, OSError):
        return True
    held.release()
    return False


class Found(NamedTuple):
    """Content of the finished parts: ids of finished samples, of those without a base, and the number of error rows."""

    samples: set[str]
    failed: set[str]
    errors: int


def recover(folder: Path) -> Found:
    """Remove what a stopped run left and return what is finished. Only under `lock`.

    Temporary files, staged parts and parts without their records part are removed. A damaged part, and one that misses
    what lay beside it, is renamed to `*.corrupt` with a warning; its samples will be read again.
    """
    shutil.rmtree(folder / STAGED, ignore_errors=True)
    for pattern in ("*.tmp", "*/part-*.tmp"):
        for temporary in folder.glob(pattern):
            temporary.unlink()
    samples, failed, total = set(), set(), 0
    for part in _parts(folder, "records"):
        beside = {kind: _parts(folder, kind, _chunk(part)) for kind in BESIDE}
        try:
            records = _read_part(part)
            note = json.loads(records.schema.metadata[_NOTE])
            for kind, n in note["beside"].items():
                there = sum(_read_part(path).num_rows for path in beside[kind])
                if there != n:
                    raise OSError(f"of its {n} rows of {kind} {there} are there")
        except (OSError, pa.ArrowException) as error:
            for path in (part, *itertools.chain(*beside.values())):
                path.rename(path.with_name(f"{path.name}.corrupt"))
            warnings.warn(f"a damaged part is set aside and will be redone: {part}: {error}", stacklevel=3)
            continue
        samples.update(note["samples"])
        failed.update(set(note["samples"]) - set(records["sample_id"].to_pylist()))
        total += note["beside"].get("errors", 0)
    kept = {_chunk(part) for part in _parts(folder, "records")} | {DATASET}
    for kind in BESIDE:
        for part in _parts(folder, kind):
            if _chunk(part) not in kept:
                part.unlink()
    return Found(samples, failed, total)


# --- reading ----------------------------------------------------------------------------------------------------------


def read(folder: Path, kind: str) -> pd.DataFrame:
    """All finished rows of one kind of part, ordered by sample, with nullable integers and booleans.

    Raises:
        OSError: a part is damaged; the message names it.
    """
    done = {_chunk(part) for part in _parts(folder, "records")} | {DATASET}
    tables = [SCHEMAS[kind].empty_table()]
    for part in _parts(folder, kind):
        if _chunk(part) in done:
            tables.append(_read_table(part, kind))
    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = pa.concat_tables(tables).to_pandas(types_mapper=nullable.get)
    if kind == "records":
        frame["applicable"] = frame["applicable"].astype(bool)  # never missing, and used as a mask
    by = ["sample_id", "stage", "instance"] if kind == "errors" else ["sample_id"]  # others stay in the suite's order
    return frame.sort_values(by, kind="stable", ignore_index=True)


def chunks(folder: Path, kind: str) -> Iterator[tuple[str, pa.Table]]:
    """(chunk, rows) of all finished chunks, in no order; damaged parts are left out."""
    for part in _parts(folder, "records"):
        with contextlib.suppress(OSError, pa.ArrowException):
            yield _chunk(part), read_chunk(folder, kind, _chunk(part))


def read_chunk(folder: Path, kind: str, chunk: str) -> pa.Table:
    """The rows of one kind of part of one chunk.

    Raises:
        OSError: a part is damaged; the message names it.
    """
    tables = [_read_table(part, kind) for part in _parts(folder, kind, chunk)]
    return pa.concat_tables([SCHEMAS[kind].empty_table(), *tables])


def _parts(folder: Path, kind: str, chunk: str = "*") -> list[Path]:
    return sorted((folder / kind).glob(f"part-{chunk}-*.parquet"))


def _chunk(part: Path) -> str:
    return part.name.split("-")[1]


def _read_table(part: Path, kind: str) -> pa.Table:
    """The part with the columns of today, in their order; those that it lacks, being older, are empty."""
    table = _read_part(part).replace_schema_metadata(None)
    columns = [
        table[column.name].cast(column.type) if column.name in table.column_names else pa.nulls(len(table), column.type)
        for column in SCHEMAS[kind]
    ]
    return pa.table(columns, SCHEMAS[kind])


def _read_part(part: Path) -> pa.Table:
    content = part.read_bytes()
    if part.stem.split("-")[2] != _digest(content):
        raise OSError(f"{part} is not as it was written; running the study again redoes it")
    return pq.read_table(pa.BufferReader(content))
