"""Files from the hub, for models and data sets: from the local cache, else downloaded, else a clear error."""

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

SECONDS = 5.0  # to wait for the hub's first answer


class ModelUnavailable(RuntimeError):
    """A model that is not available here; the message says which, what was tried, and what to do."""


def fetch(
    repo: str,
    files: Sequence[str],
    called: str,
    otherwise: str,
    error: type[Exception],
    kind: str = "model",
    revision: str | None = None,
    needs: Sequence[str] = (),
    download: bool = True,
) -> Path:
    """Return the local folder of a repository's files, downloading them on first use.

    An interrupted download is completed: a cached copy that lacks a file of `needs`, or some of several parts. Without
    network, another cached revision is used instead (see `revision_of`).

    Args:
        repo: its id on the hub.
        files: patterns of the wanted files.
        called: its name in messages.
        otherwise: advice in messages for people without network.
        error: type of the error raised.
        kind: `model` or `dataset`.
        revision: commit or branch; default: the main branch.
        needs: patterns of which each must match a file.
        download: ask the hub for missing files; otherwise only the local cache is searched.

    Raises:
        error: within seconds, if the files are not here and the hub is not available.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    def cached(revision: str | None) -> tuple[Path | None, list[str]]:
        """(folder, what it lacks)"""
        try:
            folder = Path(snapshot_download(**wanted | {"revision": revision}, local_files_only=True))
        except LocalEntryNotFoundError:
            return None, []
        return folder, _lacking(folder, files, needs)

    wanted: dict[str, Any] = dict(repo_id=repo, repo_type=kind, revision=revision, allow_patterns=list(files))
    folder, lacking = cached(revision)
    if folder and not lacking:
        return folder
    state = f"not whole (missing: {quoted(lacking)})" if folder else "not"
    where = f"{called} is {state} in the local cache ({constants.HF_HUB_CACHE})"
    spare, lacks = cached(None) if revision else (None, [])
    spare = spare if not lacks else None
    if constants.HF_HUB_OFFLINE or not download:
        if spare:
            return spare
        raise error(f"{where}, and HF_HUB_OFFLINE is set. {otherwise}")
    try:
        HfApi().repo_info(repo, repo_type=kind, revision=revision, timeout=SECONDS)  # says at once if nobody is there
        folder = Path(snapshot_download(**wanted))
    except GatedRepoError as reason:
        raise error(f"{where}, and the hub wants its licence accepted and a token (`hf auth login`).") from reason
    except RepositoryNotFoundError as reason:
        raise error(f"{where}, and the hub has no such {kind}. Is the id right?") from reason
    except Exception as reason:
        if spare:
            return spare
        raise error(f"{where}, and the hub cannot be reached ({type(reason).__name__}). {otherwise}") from reason
    if lacking := _lacking(folder, files, needs):
        raise error(f"{called} holds no {quoted(lacking)} on the hub any more. {otherwise}")
    return folder


def missing_parts(folder: Path, deep: bool = False) -> list[str]:
    """List the missing files of a folder: named by an index of shards, or implied by a numbering such as
    `train-00001-of-00003.parquet`. Broken links count as missing.

    Args:
        deep: look into subfolders too.
    """
    promised: set[str] = set()
    for file in folder.rglob("*") if deep else folder.iterdir():
        place = file.relative_to(folder).parent
        if file.name.endswith(".index.json") and file.exists():
            promised |= {str(place / shard) for shard in _shards(file)}
        elif numbered := re.fullmatch(r"(.*-)\d{5}-of-(\d{5})(\..*)", file.name):
            before, n, after = numbered.groups()
            promised |= {str(place / f"{before}{i:05d}-of-{n}{after}") for i in _numbers(file.name, int(n))}
    return sorted(name for name in promised if not (folder / name).exists())


def revision_of(folder: Path) -> str | None:
    """Return the hub's commit of a folder's files, or None if it is not recorded.

    It is known for snapshots in the hub's cache and folders made by `hf download --local-dir`.
    """
    if folder.parent.name == "snapshots":
        return folder.name
    for note in sorted((folder / ".cache" / "huggingface" / "download").glob("*.metadata")):
        commit = note.read_text().split("\n", 1)[0].strip()
        if re.fullmatch(r"[0-9a-f]{40}", commit):
            return commit
    return None


def hub_id_of(folder: Path) -> str | None:
    """Return the hub id of a snapshot in the hub's cache, None for any other folder."""
    repository = folder.parents[1].name if folder.parent.name == "snapshots" else ""
    return "/".join(repository.split("--")[1:]) or None


def quoted(names: Sequence[str], at_most: int = 3) -> str:
    """Quote the first names of a list."""
    left = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + left


def _shards(index: Path) -> list[str]:
    """Files that an index of shards names."""
    try:
        return list(json.loads(index.read_text()).get("weight_map", {}).values())
    except (ValueError, AttributeError):
        return [f"{index.name} (damaged)"]


def _numbers(name: str, n: int) -> range:
    """Return the numbers of n parts, counted from 0 (data sets) or 1 (weights)."""
    first = 1 if name.endswith(".safetensors") else 0
    return range(first, n + first)


def _lacking(folder: Path, files: Sequence[str], needs: Sequence[str]) -> list[str]:
    lacking = [pattern for pattern in needs if not any(file.exists() for file in folder.glob(pattern))]
    return lacking + [
        name for name in missing_parts(folder, deep=True) if any(fnmatch(name, pattern) for pattern in files)
    ]
