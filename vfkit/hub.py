"""What the hub holds, for models and data sets alike: from the local cache, else downloaded, else a clear refusal."""

from collections.abc import Sequence
from pathlib import Path

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
) -> Path:
    """The local folder of a repository's files; they are downloaded on first use.

    Args:
        repo: its id on the hub.
        files: patterns of the files that are wanted.
        called: what messages call it.
        otherwise: what they tell people without network to do.
        error: what is raised.
        kind: `model` or `dataset`.
        needs: patterns of which each must match a file; a cached copy that lacks one is completed.

    Raises:
        error: within seconds where the files are not here and the hub cannot give them.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    wanted = dict(repo_id=repo, repo_type=kind, revision=revision, allow_patterns=list(files))
    try:
        folder = Path(snapshot_download(**wanted, local_files_only=True))
        if not _lacking(folder, needs):
            return folder
    except LocalEntryNotFoundError:
        pass
    where = f"{called} is not in the local cache ({constants.HF_HUB_CACHE})"
    if constants.HF_HUB_OFFLINE:
        raise error(f"{where}, and HF_HUB_OFFLINE is set. {otherwise}")
    try:
        HfApi().repo_info(repo, repo_type=kind, revision=revision, timeout=SECONDS)  # says at once if nobody is there
        folder = Path(snapshot_download(**wanted))
    except GatedRepoError as reason:
        raise error(f"{where}, and the hub wants its licence accepted and a token (`hf auth login`).") from reason
    except RepositoryNotFoundError as reason:
        raise error(f"{where}, and the hub has no such {kind}. Is the id right?") from reason
    except Exception as reason:
        raise error(f"{where}, and the hub cannot be reached ({type(reason).__name__}). {otherwise}") from reason
    if lacking := _lacking(folder, needs):
        raise error(f"{called} holds no {lacking[0]} on the hub any more. {otherwise}")
    return folder


def _lacking(folder: Path, needs: Sequence[str]) -> list[str]:
    return [pattern for pattern in needs if not any(folder.glob(pattern))]
