"""Key of a run: a digest of everything that its records depend on, and the folder named by it."""

import hashlib
import json
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import vfkit
from vfkit.datasets import resolve
from vfkit.models import ModelUnavailable
from vfkit.perturb import Suite
from vfkit.study.code import definitions
from vfkit.study.config import StudyConfig

# Libraries whose versions a record may depend on.
LIBRARIES = ("torch", "torchvision", "transformers", "tokenizers", "pillow")
HOSTED_LIBRARIES = ("pillow",)

# Fields that other parts of the identity stand for: the fingerprint of the data covers which samples there are and all
# that a model is asked about them; that of the model its files, type and pixel budget; the suite its parameters.
COVERED = {"model", "dtype", "dataset", "dataset_options", "n", "seed", "subset", "families", "family_params"}
ONLY_PROBES = {"max_new_tokens", "keep_vectors"}  # mean nothing without probes
ONLY_INSIDE = {"inside_layers", "inside_window"}  # nor these without inside

# Where the code that a record depends on begins, and what it reaches that no record depends on.
ROOTS = (
    *("vfkit.study.workers.Worker", "vfkit.study.work.work", "vfkit.study.job.control_samples"),
    *("vfkit.perturb.suite.natural_suite", "vfkit.datasets.load_dataset"),
)
NOT_RECORDS = (
    *("vfkit.study.store", "vfkit.study.config", "vfkit.study.provenance", "vfkit.study.reuse"),
    *("vfkit.readout.verify", "vfkit.readout.oracle", "vfkit.models.registry", "vfkit.hub"),
    *("vfkit.models.load.check_memory", "vfkit.names", "vfkit.inside.verify", "vfkit.inside.oracle"),
)
# What only some runs use.
HOSTED = ("vfkit.models.api", "vfkit.chat", "vfkit.judge")
LOCAL = ("vfkit.models.load.load_model", "vfkit.readout.engine")
ATTACK = ("vfkit.attack", "vfkit.readout.gradient")
PROBES = ("vfkit.measure", "vfkit.readout.greedy")
INSIDE = ("vfkit.inside",)


def settings(config: StudyConfig, suite: Suite) -> dict[str, Any]:
    """Settings of a study besides model and data, in one form: all parameters of the suite, defaults spelled out.

    Settings that are off (None, False, empty) are left out, so that a new field that is off by default does not change
    earlier keys.
    """
    left_out = COVERED | (set() if config.probes else ONLY_PROBES) | (set() if config.inside else ONLY_INSIDE)
    if not (config.probes or config.inside):
        left_out |= {"controls"}
    fields = {name: value for name, value in config.key_fields().items() if name not in left_out}
    fields["suite"] = suite.families
    fields["protocol"] = config.protocol.of_records(config.probes)
    return {name: value for name, value in fields.items() if value not in (None, False, "", (), [], {})}


def identity(config: StudyConfig, suite: Suite, data: str) -> dict[str, Any]:
    """Everything that the records of a run depend on; equal identities are one run, in any folder.

    Args:
        data: fingerprint of the samples (`SampleList.fingerprint`).

    Returns:
        JSON-able: `settings`, `tables` (changes of the protocol that only tables depend on; missing where there are
        none), `model` and `data` (fingerprints), `code` (digest), `libraries` (version by name) and `processor`
        (the back end of image processors; None for a hosted model).

    Raises:
        ModelUnavailable: the model's files are not available here.
    """
    hosted = vfkit.models.is_hosted(config.model)
    tables = config.protocol.of_tables()
    who = {
        **({"tables": tables} if tables else {}),
        "settings": settings(config, suite),
        "model": vfkit.models.fingerprint(config.model, dtype=config.dtype),
        "data": data,
        "code": digest(code(config, suite)),
        **surroundings(hosted),
    }
    return json.loads(json.dumps(who))  # tuples as lists, as they are read back


def surroundings(hosted: bool = False) -> dict[str, Any]:
    """The `libraries` and `processor` of an identity."""
    return {
        "libraries": {name: _version(name) for name in (HOSTED_LIBRARIES if hosted else LIBRARIES)},
        "processor": None if hosted else "torchvision" if find_spec("torchvision") else "pil",
    }


def run_key(who: dict[str, Any]) -> str:
    """Short digest of an identity."""
    return digest(who)[:12]


def digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def code(config: StudyConfig, suite: Suite, package: Path | None = None) -> dict[str, str]:
    """Digests, by name, of the definitions that the records of a run depend on (`vfkit.study.code`).

    Only what this run can use counts: its loader, adapter and families, the engine or the client of hosted models,
    attacks and probes where it has them.

    Args:
        package: folder of the source; default the package's own.
    """
    hosted = vfkit.models.is_hosted(config.model)
    chosen = {
        "vfkit.datasets.LOADERS": [resolve(config.dataset, config.dataset_path)[0]],
        "vfkit.models.adapters.ADAPTERS": [] if hosted else [model_type(config.model)],
        "vfkit.perturb.suite._FAMILIES": list(suite.families),
    }
    without = NOT_RECORDS + (LOCAL if hosted else HOSTED)
    without += () if suite.attacks or config.inside else ATTACK
    without += (() if config.probes else PROBES) + (() if config.inside else INSIDE)
    if package is not None:
        return definitions(ROOTS, package, without, chosen)
    return _own(without, tuple((table, tuple(keys)) for table, keys in chosen.items()))


@cache  # of the code that runs, whatever is edited meanwhile
def _own(without: tuple[str, ...], chosen: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    return definitions(ROOTS, Path(vfkit.__file__).parent, without, dict(chosen))


def model_type(source: str) -> str:
    """Architecture named by a checkpoint's config.json."""
    return _from_config(source, "model_type")


def n_layers(source: str) -> int:
    """Layers of the text model, by a checkpoint's config.json."""
    return _from_config(source, "text_config")["num_hidden_layers"]


def _from_config(source: str, name: str) -> Any:
    folder = vfkit.models.files(vfkit.models.find(source))
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnavailable(f"model {source!r}: its config.json says no {name}: {error!r}") from error


def run_folder(config: StudyConfig, key: str) -> Path:
    """`out/<study>/<model>/<dataset>/<key>`; the names are for people, only the key tells runs apart."""
    names = [safe_name(name) for name in (config.study, model_name(config.model), config.dataset)]
    return Path(config.out, *names, key)


def model_name(model: str) -> str:
    """Canonical name of a model given by name, hub id or folder; the given name if it is not available."""
    try:
        return vfkit.models.find(model).name
    except ModelUnavailable:
        return model


def safe_name(name: str) -> str:
    """Turn a name into one that any file system takes as a folder: `Qwen/Qwen3-VL` -> `Qwen_Qwen3-VL`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-80:].strip("._") or "_"


def _version(library: str) -> str | None:
    """Version of a library without its build (`+cpu`), since devices are not part of the identity; None if not
    installed."""
    try:
        return version(library).split("+")[0]
    except PackageNotFoundError:
        return None
