"""From a name to the files of a checkpoint: the registry, folders, the hub's cache, the hub. Loads no weights."""

import difflib
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from vfkit import hub
from vfkit.hub import ModelUnavailable

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = Path(__file__).parents[1]
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Size of one number by dtype."""
_HASH_WHOLE = 64 * 2**20  # files up to this many bytes are hashed whole for the fingerprint


@dataclass(frozen=True)
class Spec:
    """Where a model comes from and how it is loaded; see params/models.yaml, which says what each field means."""

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    dtype: str | None = None
    params: float | None = None
    type: str | None = None
    device: str | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    notes: str = ""
    api: dict | None = None


@cache
def specs() -> dict[str, Spec]:
    """Every named model."""
    file = PACKAGE.parent / "params" / "models.yaml"
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist: install vfkit from its repository with pip install -e .")
    return {name: Spec(name, **fields) for name, fields in yaml.safe_load(file.read_text()).items()}


def find(name: str) -> Spec:
    """The spec of a registered name, a folder or a hub id.

    Raises:
        ModelUnavailable: none of the three; names the nearest registered name.
    """
    if name in specs():
        return specs()[name]
    if os.sep in name and Path(name).is_dir() or Path(name, "config.json").exists():
        return Spec(name, path=str(Path(name).resolve()))
    if name.count("/") == 1 and not name.startswith((".", "/", "~")) and not Path(name).exists():
        return Spec(name, hub=name)
    near = difflib.get_close_matches(name, specs(), n=1)
    raise ModelUnavailable(
        f"model {name!r} is neither a name in params/models.yaml ({', '.join(specs())}), nor a folder with a "
        f"checkpoint, nor a hub id (owner/model)." + (f" Did you mean {near[0]!r}?" if near else "")
    )


def files(spec: Spec, weights: bool = True) -> Path:
    """The folder that holds the checkpoint's files; a hub model is downloaded on first use, on wish without weights.

    Raises:
        ModelUnavailable: within seconds where the files are not here and the hub cannot give them.
    """
    if spec.api is not None:
        raise ModelUnavailable(f"model {spec.name!r} is hosted: it has no files here")
    if spec.path is not None:
        folder = PACKAGE / spec.path  # an absolute path stays as it is
        if not (folder / "config.json").exists():
            raise ModelUnavailable(f"model {spec.name!r}: {folder} holds no checkpoint (no config.json)")
        return folder
    return _from_hub(spec, weights)


def _from_hub(spec: Spec, weights: bool) -> Path:
    meant = f"hub id {spec.hub}" if spec.name != spec.hub else "taken as a hub id: there is no such folder"
    otherwise = (
        f"To have it: on a machine with network run `hf download {spec.hub}`, copy the folder here and give its path "
        "as the model; or choose an embedded one, such as mini_qwen3vl."
    )
    needs = ["*.safetensors"] if weights else ["config.json"]  # a dry run may have fetched the config alone
    patterns = ["*.json", "*.jinja", "*.txt", "*.model", *needs]
    called = f"model {spec.name!r} ({meant})"
    return hub.fetch(spec.hub, patterns, called, otherwise, ModelUnavailable, revision=spec.revision, needs=needs)


def listing() -> "pd.DataFrame":
    """One row per model of params/models.yaml: name, source (hub id, `embedded` or `hosted`), type (architecture),
    billions (of parameters), dtype, gigabytes (of its weights in that type; activations come on top), notes.
    """
    import pandas as pd  # only here: looking a model up needs no pandas

    rows = [
        {
            "name": spec.name,
            "source": "embedded" if spec.path else spec.hub or "hosted",
            "type": spec.type or "",
            "billions": spec.params,
            "dtype": spec.dtype or "",
            "gigabytes": spec.params and spec.params * BYTES[spec.dtype],
            "notes": spec.notes,
        }
        for spec in specs().values()
    ]
    return pd.DataFrame(rows).astype({"billions": float, "gigabytes": float})


def is_hosted(name: str) -> bool:
    """Whether a model is asked over the network: it gives answers, and neither scores nor states."""
    return find(name).api is not None


def endpoint_url(spec: Spec) -> str:
    """Where a hosted model is asked: an address in the environment, where its entry names a variable that is set, goes
    before the provider's own."""
    return os.environ.get(spec.api.get("base_url_env", ""), "") or spec.api["base_url"]


def fingerprint(name: str, dtype: str | None = None) -> str:
    """Digest of the checkpoint's files, the type it is loaded as and its pixel budget; no weights are loaded.

    Small files are hashed whole; of larger ones the size, the first and the last mebibyte are. Of a hosted model it is
    where and how it is asked.
    """
    spec = find(name)
    if spec.api is not None:
        asked = {"url": endpoint_url(spec), "model": spec.api["model"], "request": spec.api["request"]}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    folder = files(spec)
    budget = [str(pixels) for pixels in (spec.min_pixels, spec.max_pixels) if pixels]
    digest = hashlib.sha256(" ".join([str(dtype or spec.dtype), *budget]).encode())
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".safetensors", ".jinja", ".txt", ".model") and file.name not in _NOT_THE_MODEL:
            digest.update(f"{file.name} {file.stat().st_size} ".encode())
            digest.update(_content(file))
    return digest.hexdigest()[:16]


_NOT_THE_MODEL = ("training.json", "card.json")  # how an embedded model was made and what it scores


def _content(file: Path) -> bytes:
    if file.stat().st_size <= _HASH_WHOLE:
        return hashlib.sha256(file.read_bytes()).digest()
    with file.open("rb") as opened:
        head = opened.read(2**20)
        opened.seek(-(2**20), os.SEEK_END)
        return hashlib.sha256(head + opened.read()).digest()
