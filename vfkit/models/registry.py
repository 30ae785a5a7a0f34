"""Model names: the registry, folders, the hub's cache and the hub. No weights are loaded."""

import difflib
import hashlib
import json
import os
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from vfkit import hub
from vfkit.hub import ModelUnavailable
from vfkit.models import checkpoint
from vfkit.names import unknown

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = Path(__file__).parents[1]
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Size of one number by dtype."""


MODES = ("instruct", "reasoning closed", "thinking")
"""Ways of answering: of a model that does not reason; of one that does, after an empty reasoning, or after its own."""
REASONING_TOKENS = 8192
"""Most tokens of a reasoning, where a model's entry says no other limit."""


@dataclass(frozen=True)
class Spec:
    """Source and settings of a model; params/models.yaml explains each field.

    Two fields are not in that file: `path` of a checkpoint's folder outside the package, and `like`, the registered
    model with whose config a folder is read because the two are the same architecture and size.
    """

    name: str
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    dtype: str | None = None
    params: float | None = None
    type: str | None = None
    training: str = ""
    device: str | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    thinking: int | bool | None = None
    notes: str = ""
    api: dict | None = None
    like: str | None = None


@cache
def specs() -> dict[str, Spec]:
    """Return every named model: those that vfkit brings and, before them, those of `params/models.yaml` in the working
    directory.

    Raises:
        ValueError: an entry that is none, or with an unknown field; the nearest valid one is named.
    """
    own = Path("params", "models.yaml").resolve()
    entries = _yaml("models.yaml") | (_entries(own) if own.is_file() else {})
    return {name: Spec(name, **fields) for name, fields in entries.items()}


@cache
def released() -> dict[str, dict[str, Any]]:
    """Figures of released checkpoints by registered name: `source`, `config`, `processor` (see models/released.yaml).

    Models without a public source of these figures are missing.
    """
    return yaml.safe_load((PACKAGE / "models" / "released.yaml").read_text())


def find(name: str | Path) -> Spec:
    """Find the spec of a registered name, a folder or a hub id. All three give the same spec for the same model: a hub
    id is looked up among the registered ones, a folder is known by its place in the hub's cache or by its config.

    Raises:
        ModelUnavailable: none of the three; names the nearest registered name.
    """
    name = os.fspath(name)
    if name in specs():
        return specs()[name]
    folder = Path(name).expanduser()
    if os.sep in name and folder.is_dir() or (folder / "config.json").exists():
        return _of_folder(name, folder.resolve())
    if name.count("/") == 1 and not name.startswith((".", "/", "~")) and not folder.exists():
        return _of_hub_id(name)
    near = difflib.get_close_matches(name, specs(), n=1)
    raise ModelUnavailable(
        f"model {name!r} is neither a name in params/models.yaml, nor a folder with a checkpoint, nor a hub id "
        f"(owner/model). {f'Did you mean {near[0]!r}? ' if near else ''}`python -m vfkit.models` lists the names."
    )


def files(spec: Spec, weights: bool = True, download: bool = True) -> Path:
    """Return the folder of the checkpoint's files; a hub model is downloaded on first use, optionally without weights.
    Without `download` the hub is not asked.

    Raises:
        ModelUnavailable: within seconds, if the files are not here and the hub is not available.
    """
    if spec.api is not None:
        raise ModelUnavailable(f"model {spec.name!r} is hosted: it has no files here")
    if spec.path is not None:
        folder = PACKAGE / spec.path  # an absolute path stays as it is
        if not (folder / "config.json").exists():
            raise ModelUnavailable(f"model {spec.name!r}: {folder} holds no checkpoint (no config.json)")
        return folder
    return _from_hub(spec, weights, download)


def listing() -> "pd.DataFrame":
    """Tabulate the models of params/models.yaml, one per row: name, source (hub id, `embedded` or `hosted`), type
    (architecture), billions (of parameters), dtype, gigabytes (of its weights in that type; activations come on top),
    notes.
    """
    import pandas as pd  # only here: looking a model up needs no pandas

    rows = [
        {
            "name": spec.name,
            "source": "embedded" if spec.path else spec.hub or "hosted",
            "type": spec.type or "",
            "billions": spec.params,
            "dtype": spec.dtype or "",
            "gigabytes": spec.params and spec.dtype and spec.params * BYTES[spec.dtype],
            "notes": spec.notes,
        }
        for spec in specs().values()
    ]
    return pd.DataFrame(rows).astype({"billions": float, "gigabytes": float})


def is_hosted(name: str | Path) -> bool:
    """Whether a model is hosted: it gives answers, but no scores and no states."""
    return find(name).api is not None


def mode_of(name: str | Path, thinking: bool = False) -> str:
    """One of `MODES`: how a model answers in a study that lets models reason, or not. No weights are loaded; of a
    checkpoint without an entry its chat template tells."""
    spec = find(name)
    if spec.api is not None:
        return MODES[0] if spec.thinking is None else MODES[2] if spec.thinking else MODES[1]
    reasons = bool(spec.thinking) or (spec.path is not None and "</think>" in _template(PACKAGE / spec.path))
    return MODES[0] if not reasons else MODES[2] if thinking else MODES[1]


def endpoint_url(spec: Spec) -> str:
    """Address of a hosted model: from the environment variable that its entry names, else the provider's."""
    assert spec.api, f"{spec.name} is no hosted model"
    return os.environ.get(spec.api.get("base_url_env", ""), "") or spec.api["base_url"]


def fingerprint(name: str | Path, dtype: str | None = None) -> str:
    """Digest of every byte of the checkpoint's files, of the type it is loaded as and of its pixel budget. Of a hosted
    model: of where and how it is asked. No weights are loaded."""
    spec = find(name)
    if spec.api is not None:
        asked = {"url": endpoint_url(spec), "model": spec.api["model"], "request": spec.api["request"]}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    folder = files(spec)
    spec = find(name)  # a hub model's config is here only now
    budget = [str(pixels) for pixels in (spec.min_pixels, spec.max_pixels) if pixels]
    return checkpoint.digest(folder, dtype or dtype_of(spec, folder), *budget)


def dtype_of(spec: Spec, folder: Path) -> str:
    """Type of the weights when loaded: the registry's, else the one that the checkpoint's config states."""
    config = checkpoint.read_config(spec.name, folder)
    own = [part.get(key) for part in (config, config.get("text_config") or {}) for key in ("dtype", "torch_dtype")]
    return spec.dtype or next((str(each) for each in own if each), "float32")


# --- one model by several names ---------------------------------------------------------------------------------------


def _of_hub_id(name: str) -> Spec:
    for spec in specs().values():
        if (spec.hub or "").lower() == name.lower():
            return spec
    spec = Spec(name, hub=name)
    try:
        folder = _from_hub(spec, weights=False, download=False)
    except ModelUnavailable:
        return spec  # its config is not known yet
    return _sized_like(spec, folder) or spec


def _of_folder(name: str, folder: Path) -> Spec:
    for spec in specs().values():
        if spec.path and (PACKAGE / spec.path) == folder:
            return spec
    hub_id = hub.hub_id_of(folder)
    if hub_id:
        spec = _of_hub_id(hub_id)
        return replace(spec, path=str(folder))
    spec = Spec(name, path=str(folder))
    like = _sized_like(spec, folder)
    if like and like.like and not any((folder / sign).exists() for sign in _TRAINED_ON):
        return replace(specs()[like.like], path=str(folder))
    return like or spec


_TRAINED_ON = ("trainer_state.json", "training_args.bin", "adapter_config.json")  # signs of weights of one's own


def _sized_like(spec: Spec, folder: Path) -> Spec | None:
    """The spec with the settings of the registered model whose config has the same figures, if any."""
    try:
        own = _figures(checkpoint.read_config(spec.name, folder))
    except ModelUnavailable:
        return None
    same = [name for name, model in released().items() if _figures(model["config"]) == own]
    if not same:
        return None
    thinks = "<think>" in _template(folder)
    best = next((name for name in same if name.endswith("thinking") == thinks), same[0])
    model = specs()[best]
    return replace(
        model, name=spec.name, hub=spec.hub, path=spec.path, revision=spec.revision, training="", notes="", like=best
    )  # fmt: skip


def _figures(config: dict[str, Any]) -> tuple:
    """What tells the sizes of one architecture apart; a config may hold the text model's figures in a part of its own
    or beside the others."""
    text = config | (config.get("text_config") or {})
    vision = config.get("vision_config") or {}
    return (
        config.get("model_type"),
        *(text.get(key) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")),
        vision.get("hidden_size"),
        vision.get("depth", vision.get("num_hidden_layers")),
    )


def _template(folder: Path) -> str:
    names = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
    return "".join((folder / name).read_text() for name in names if (folder / name).exists())


def _from_hub(spec: Spec, weights: bool, download: bool = True) -> Path:
    assert spec.hub
    meant = f"hub id {spec.hub}" if spec.name != spec.hub else "taken as a hub id: there is no such folder"
    otherwise = (
        f"To have it: on a machine with network run `hf download {spec.hub}`, copy the folder here and give its path "
        "as the model; or choose an embedded one, such as mini_qwen3vl."
    )
    needs = ["config.json", *(["*.safetensors"] if weights else [])]  # a dry run may have fetched the config alone
    patterns = ["*.json", "*.jinja", "*.txt", "*.model", *needs]
    called = f"model {spec.name!r} ({meant})"
    return hub.fetch(
        spec.hub, patterns, called, otherwise, ModelUnavailable, revision=spec.revision, needs=needs, download=download
    )


def _yaml(name: str) -> dict[str, dict[str, Any]]:
    """A file of params/: the repository's, or the copy that an installed package holds."""
    places = [PACKAGE.parent / "params" / name, PACKAGE / "params" / name]
    for file in places:
        if file.exists():
            return _entries(file)
    raise FileNotFoundError(f"{places[0]} does not exist: install vfkit from its repository with pip install -e .")


def _entries(file: Path) -> dict[str, dict[str, Any]]:
    """Models by name from a YAML file. A relative path that the package lacks starts at the folder above the file's."""
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(entries, dict) or not all(isinstance(fields, dict) for fields in entries.values()):
        raise ValueError(f"{file}: each entry is a name, a colon and its fields, such as `mine: {{hub: owner/model}}`")
    known = [field.name for field in dataclass_fields(Spec) if field.name not in ("name", "like")]
    for name, fields in entries.items():
        if wrong := set(fields) - set(known):
            raise ValueError(f"{file}, model {name!r}: {unknown('field', min(wrong), known)}")
        if (path := fields.get("path")) and not (PACKAGE / path).exists():
            fields["path"] = str((file.parent.parent / Path(path).expanduser()).resolve())
    return entries
