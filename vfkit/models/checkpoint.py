"""Checks of a checkpoint's folder before loading: its config, whether its files are complete, its digest."""

import hashlib
import json
from pathlib import Path
from typing import Any

from vfkit.fingerprint import fingerprint_file
from vfkit.hub import ModelUnavailable, missing_parts, quoted

_OF_THE_MODEL = (".json", ".safetensors", ".jinja", ".txt", ".model")
_NOT_THE_MODEL = ("training.json", "card.json")  # how an embedded model was made and what it scores
_HEADER = 8  # bytes that hold the length of a safetensors header
_POINTER = b"version https://git-lfs"
_CONVERTED = {
    "internvl_chat": "the -hf form ({id}-hf)",
    "llava_qwen": "the -hf form (such as llava-hf/llava-onevision-qwen2-7b-ov-hf)",
    "llava": "the -hf form (such as llava-hf/llava-onevision-qwen2-7b-ov-hf)",
}
"""Architectures whose original checkpoints bring their own code -> the form that needs none."""


def read_config(name: str, folder: Path) -> dict[str, Any]:
    """Read config.json.

    Raises:
        ModelUnavailable: it is missing or damaged.
    """
    file = folder / "config.json"
    try:
        if _is_pointer(file):
            raise ModelUnavailable(_refusal(name, folder, _lfs(file)))
        config = json.loads(file.read_text())
        if not isinstance(config, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as error:
        raise ModelUnavailable(_refusal(name, folder, f"its config.json cannot be read ({error})")) from error
    return config


def check_architecture(name: str, folder: Path, known: Any) -> None:
    """Refuse a model whose type is not among the `known`; say so of one that brings its own code.

    Raises:
        ModelUnavailable: no adapter for its type, or no type at all.
    """
    config = read_config(name, folder)
    type_ = config.get("model_type")
    if type_ in known:
        return
    if "auto_map" in config:
        form = _CONVERTED.get(str(type_), "a form that transformers itself reads, if there is one").format(
            id=_released_as(name)
        )
        reason = f"it brings its own code (auto_map), and vfkit never runs a checkpoint's code. Take {form} instead"
    elif type_ is None:
        reason = "its config.json says no model_type"
    else:
        reason = f"it is of type {type_!r}, for which there is no adapter; there are: {', '.join(known)}"
    raise ModelUnavailable(_refusal(name, folder, reason))


def _released_as(name: str) -> str:
    """Hub id of a model given by hub id, or by a folder called as InternVL's own checkpoints are."""
    return f"OpenGVLab/{Path(name).expanduser().resolve().name}" if Path(name).expanduser().is_dir() else name


def check_files(name: str, folder: Path) -> None:
    """Refuse weights that are missing, cut off, or not weights, in one line and before they are read.

    Raises:
        ModelUnavailable: says which file, and what to do.
    """
    files = sorted(file for file in folder.iterdir() if file.suffix in (*_OF_THE_MODEL, ".bin", ".gguf"))
    for file in files:
        if file.exists() and _is_pointer(file):
            raise ModelUnavailable(_refusal(name, folder, _lfs(file)))
    weights = [file for file in files if file.suffix == ".safetensors"]
    reason: str | None
    broken = [file.name for file in files if not file.exists()]  # links that lead nowhere
    if missing := sorted({*missing_parts(folder), *broken}):
        reason = f"{len(missing)} of its files are missing ({quoted(missing)}): the download or copy is not complete"
    elif not weights and (other := [file.name for file in files if file.suffix in (".bin", ".gguf")]):
        reason = (
            f"its weights are in {quoted(other)} only, and vfkit reads safetensors only; on a machine you trust them "
            "on, load them with transformers and save_pretrained(folder, safe_serialization=True)"
        )
    elif not weights:
        reason = "it holds no weights (no *.safetensors)"
    else:
        reason = next(filter(None, map(_cut_off, weights)), None)
    if reason:
        raise ModelUnavailable(_refusal(name, folder, reason))


def weight_bytes(folder: Path) -> int:
    """Size of the weights on disk, in bytes."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def digest(folder: Path, *settings: str) -> str:
    """Digest of all files of a model in a folder, and of how it is loaded."""
    whole = hashlib.sha256(" ".join(settings).encode())
    for file in sorted(folder.iterdir()):
        if file.suffix in _OF_THE_MODEL and file.name not in _NOT_THE_MODEL:
            whole.update(f"{file.name} {fingerprint_file(file)} ".encode())
    return whole.hexdigest()[:16]


def _refusal(name: str, folder: Path, reason: str) -> str:
    where = "" if str(folder) in name else f" in {folder}"
    return f"model {name!r}{where} cannot be loaded: {reason}."


def _is_pointer(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_POINTER)) == _POINTER


def _lfs(file: Path) -> str:
    return f"{file.name} is a Git LFS pointer, not the file itself: run `git lfs pull` there, or `hf download`"


def _cut_off(file: Path) -> str | None:
    """Say why a safetensors file is not complete; None if it is."""
    there = file.stat().st_size
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(_HEADER), "little")
            if _HEADER + length > there:
                return f"{file.name} is cut off inside its header ({there:,} bytes are there)"
            header = json.loads(opened.read(length))
        ends = [tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"]
    except (ValueError, KeyError, TypeError) as error:
        return f"{file.name} is not a safetensors file ({error})"
    whole = _HEADER + length + max(ends, default=0)
    return f"{file.name} is cut off: {there:,} of {whole:,} bytes are there" if there < whole else None
