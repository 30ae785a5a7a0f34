"""Config of a study: every choice that its records depend on, and a few that they do not."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from vfkit.datasets import LOADERS, TABLES, SampleList, load_dataset, resolve
from vfkit.datasets.base import unknown
from vfkit.inside import Measure
from vfkit.perturb import Suite, natural_suite
from vfkit.readout.rules import Rule
from vfkit.study.protocol import VFKIT, Protocol

# These change how a run is done and where it is kept, not what it records. The data's place is among them because
# the dataset's fingerprint, which covers the content of every image, stands in the key for it.
NOT_IN_KEY = {"out", "study", "dataset_path", "device", "batch_tokens", "verify", "chunk", "ahead", "engine"}
NOT_IN_KEY |= {"workers", "gpus_per_worker", "cpus_per_worker", "retries"}


class StudyConfig(BaseModel):
    """All choices of one study. An unknown field is an error.

    `out`, `study`, `dataset_path`, `device`, `batch_tokens`, `verify`, `chunk`, `ahead`, `engine` and its workers do
    not determine the records: a run may be resumed with others. What the other fields mean is part of the run's key
    (`vfkit.study.key`).

    Paths and numpy's numbers are taken where texts and numbers are, a single name where a list is; `~` is the home
    folder.

    Raises:
        ValueError: an unknown field, or an invalid value; one line names each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="a name in params/models.yaml, a hub id, or a folder")
    dataset: str = Field(description="a name known to vfkit.load_dataset")
    dataset_path: str | None = Field(None, description="where the data lie, for datasets that need it")
    dataset_options: dict[str, Any] = Field({}, description="the loader's own options")
    n: PositiveInt | None = Field(100, description="number of samples; None takes all")
    seed: int = Field(0, description="of the choice of samples")
    subset: int = Field(0, ge=0, description="which of several choices of n samples that have none in common")
    out: str = Field("outputs", description="folder that holds all runs")
    study: str = Field("perturbation", min_length=1, description="first part of the run folder's path")
    protocol: Protocol = Field(
        VFKIT,
        description="settings that decide a match with published numbers: vfkit, hi_program, vf, or fields of one",
    )
    families: tuple[str, ...] | None = Field(None, description="perturbation families; None takes all natural ones")
    family_params: dict[str, Any] | None = Field(None, description="changes to the families' parameters")
    rule: Rule = Field("paper", description="scoring rule of predictions and margins")
    probes: bool = Field(False, description="what moves inside as well as the scores: about twice the time")
    controls: int = Field(5, ge=0, description="with probes: control images that each sample's question is asked about")
    max_new_tokens: PositiveInt = Field(
        32,
        description="with probes: where the model's own answers are cut off; a model that thinks first needs thousands",
    )
    keep_vectors: bool = Field(
        False,
        description="with probes: keep the states of every instance, not of the base alone; 40 bytes an instance for "
        "each channel of the model (3 MB a sample at 2,560 channels and 30 instances)",
    )
    inside: tuple[Measure, ...] = Field(
        (),
        description="where answers break: states and lens (margins) by layer, patching, knockout, attention, radius; "
        "patching reads each instance a hundred times and more",
    )
    inside_layers: tuple[int, ...] | None = Field(
        None, description="with inside: layers whose states are read and patched, 0 to their number; None takes all"
    )
    inside_window: PositiveInt | None = Field(
        None, description="with inside: layers in which tokens are hidden together; None takes a third of them"
    )
    device: str | None = Field(None, description="torch device; None takes the best there is")
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        None, description="of the weights; None takes the protocol's, else the model's own"
    )
    batch_tokens: PositiveInt = Field(8192, description="tokens in one batch of the engine")
    verify: int = Field(2, ge=0, description="samples that the oracle re-checks at every start")
    chunk: PositiveInt = Field(
        8,
        description="samples read and written together, all questions on one image among them; their images are held "
        "in memory",
    )
    ahead: int | None = Field(
        None,
        ge=0,
        description="chunks whose images are prepared in threads while the model reads; None takes 2 beside a GPU, 0 "
        "on a CPU",
    )
    engine: Literal["local", "ray"] = Field(
        "local", description="where chunks are worked on: in this process, or by workers on Ray"
    )
    workers: PositiveInt | None = Field(
        None, description="with ray: workers, one model each; None takes as many as the GPUs allow, one without any"
    )
    gpus_per_worker: float | None = Field(
        None, ge=0, description="with ray: GPUs, or the part of one, a worker holds; None takes one where there are any"
    )
    cpus_per_worker: PositiveFloat = Field(1, description="with ray: CPU cores a worker holds")
    retries: int = Field(3, ge=0, description="with ray: how often a chunk whose worker died is given to another")

    if not TYPE_CHECKING:  # where it would hide the fields

        def __init__(self, **fields: Any):
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise ValueError("; ".join(map(_told, error.errors()))) from None

    @model_validator(mode="before")
    @classmethod
    def _plain_and_known(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        for name in fields:
            if name not in cls.model_fields:
                raise unknown("field of a study", name, cls.model_fields)
        fields = {name: plain(value) for name, value in fields.items()}
        for name in ("families", "inside"):
            if isinstance(fields.get(name), str):
                fields[name] = (fields[name],)
        protocol = fields.get("protocol", VFKIT)
        protocol = protocol if isinstance(protocol, Protocol) else Protocol.model_validate(protocol)
        fields |= {"protocol": protocol, "dtype": fields.get("dtype") or protocol.dtype}
        return fields | _named(fields.get("dataset"), fields.get("dataset_path"))

    @field_validator("inside_layers")
    @classmethod
    def _some_layers(cls, layers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if layers is not None and (not layers or min(layers) < 0):
            raise ValueError(f"layers are numbers from 0 on, at least one; None takes all; not {list(layers)}")
        return layers

    @field_validator("dataset_options")
    @classmethod
    def _only_the_loaders_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        if taken := {"name", "n", "seed", "path", "subset", "sampling"} & options.keys():
            raise ValueError(f"{', '.join(sorted(taken))}: a field of the study itself (the path is dataset_path)")
        return options

    def load_samples(self) -> SampleList:
        """Load the samples of the study; raises as `vfkit.load_dataset` does."""
        which = self.n, self.seed, self.dataset_path, self.subset, self.protocol.sampling
        return load_dataset(self.dataset, *which, **self.dataset_options)

    def suite(self) -> Suite:
        """Make the study's perturbations; raises as `vfkit.natural_suite` does."""
        return natural_suite(self.families, self.protocol.family_params(self.family_params))

    def key_fields(self) -> dict[str, Any]:
        """The fields that determine the records."""
        return self.model_dump(mode="json", exclude=NOT_IN_KEY)


def _named(dataset: Any, path: str | None) -> dict[str, Any]:
    """Name an own table by its file, whether it is given as `dataset` or as `dataset_path`."""
    if path is None and isinstance(dataset, str) and dataset not in LOADERS and dataset.endswith(TABLES):
        dataset, path = "table", dataset
    if dataset == "table" and path is not None:
        return {"dataset": resolve(dataset, path)[2], "dataset_path": path}
    return {}


def plain(value: Any) -> Any:
    """Convert a value to JSON's types: paths as texts, numpy's numbers and arrays as Python's; `~/` is the home
    folder."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return str(Path(value).expanduser()) if value == "~" or value.startswith(("~/", "~\\")) else value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def _told(error: Any) -> str:
    """One of pydantic's errors in a line: the field, what it should be, what it is."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "value_error":
        return f"{place}: {error['ctx']['error']}" if place else f"{error['ctx']['error']}"
    wrong = "" if error["type"] == "missing" else f", not {error['input']!r}"
    return f"{place}: {error['msg'][0].lower()}{error['msg'][1:]}{wrong}"
