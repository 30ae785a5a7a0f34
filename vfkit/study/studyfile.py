"""Study files: every run of a study of many models and data sets, in one YAML file (params/hi.yaml, METHODS 21).

A part of a file names a kind of run (`vfkit.study.recipes`), its models and data sets, and the parameters that the
notebook of this kind has; `settings` hold for all parts. Launcher, notebooks and report read the same file, so each
names the same runs.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from vfkit.models import ModelUnavailable, is_hosted
from vfkit.models.registry import PACKAGE
from vfkit.names import unknown
from vfkit.study import recipes
from vfkit.study.config import StudyConfig, plain

SET_BY_PART = {"model", "dataset", "dataset_path", "n", "subset", "out"}


class Data(BaseModel):
    """What a plan must know of a data set before it is here. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(None, description="where it lies; None where it is installed or fetched from the hub")
    size: int | None = Field(None, ge=1, description="samples in all")
    options: float = Field(4, ge=0, description="options of a sample, the mean")
    images: float = Field(1, ge=0, description="images of a sample, the mean")
    questions: float = Field(1, ge=1, description="questions on one image, the mean")
    width: int = Field(640, ge=1, description="of an image, in pixels, the mean")
    height: int = Field(480, ge=1)
    get: str = Field("", description="where it is published, and its licence")


class Part(BaseModel):
    """Runs of one kind with the same parameters. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = Field(description="of run: a key of vfkit.study.recipes.KINDS")
    items: tuple[str, ...] = Field((), description="tables and figures of the paper that these runs give")
    notebook: str = Field("", description="which shows one such run: 01_perturbation")
    models: tuple[str, ...] = Field(min_length=1)
    datasets: tuple[str, ...] = Field(min_length=1)
    n: dict[str, PositiveInt | None] | PositiveInt | None = Field(
        100, description="samples, null for all: of all data sets, or by data set"
    )
    subsets: dict[str, PositiveInt] | PositiveInt = Field(
        1, description="choices of n samples that share none: of all, or by data set"
    )
    settings: dict[str, Any] = Field({}, description="parameters of the kind, as its notebook calls them")

    @field_validator("models", "datasets", "items", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @model_validator(mode="after")
    def _known(self) -> "Part":
        _check_names(self.settings, recipes.own_parameters(self.kind), "parameter")
        for name, values in {"n": self.n, "subsets": self.subsets}.items():
            for dataset in values if isinstance(values, Mapping) else ():
                if dataset not in self.datasets:
                    raise unknown(f"data set of {name}", dataset, self.datasets)
        return self


class Study(BaseModel):
    """A study file. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^\w[\w.-]*$", description="also of its folder: letters, digits, dots, hyphens")
    paper: str = Field("", description="whose tables and figures its parts name: HI, VF")
    about: str = ""
    settings: dict[str, Any] = Field({}, description="parameters of all parts")
    data: dict[str, Data] = {}
    parts: dict[str, Part] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> "Study":
        kinds = {part.kind for part in self.parts.values()}
        _check_names(self.settings, [name for kind in kinds for name in recipes.own_parameters(kind)], "setting")
        return self

    def of(self, dataset: str) -> Data:
        """What is stated of a data set."""
        return self.data.get(dataset, Data())


@dataclass(frozen=True)
class Planned:
    """One run of a study.

    Args:
        number: its place among the runs of its file, from 1: choices of models, data sets or parts do not change it.
        parts: those that have it. `items`: tables and figures of all of them.
    """

    number: int
    parts: tuple[str, ...]
    items: tuple[str, ...]
    config: StudyConfig

    @property
    def part(self) -> str:
        """The first part that has it."""
        return self.parts[0]

    @property
    def name(self) -> str:
        """What people call it: part, model, data set, and the subset if it is not the first."""
        words = [self.part, self.config.model, self.config.dataset]
        return " ".join([*words, *([f"subset {self.config.subset}"] if self.config.subset else [])])


def read_study(file: str | Path, data: Mapping[str, str] | None = None, **settings: Any) -> Study:
    """Read a study file.

    Args:
        file: a path, or the name of one that vfkit brings (`hi`, `vf`, `smoke`).
        data: where data sets lie, by name; they go before the paths of the file.
        settings: parameters of all parts, which go before those of the file: `out`, `engine`, `device`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not YAML, or an unknown field, kind or parameter; the message names file and place.
    """
    path = _find(file)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Unique)
        if not isinstance(content, Mapping):
            raise ValueError("a study file is a mapping: name, settings, data, parts")
        study = Study(**plain(content))
        for name in data or {}:
            if name not in (known := dict.fromkeys(each for part in study.parts.values() for each in part.datasets)):
                raise unknown("data set of this study", name, known)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    except ValidationError as error:
        told = {_place(each["loc"]): f"{each['msg']}, not {each['input']!r:.60}" for each in error.errors()}
        lines = [f"{place}: {message}" for place, message in told.items()]
        raise ValueError("\n".join([f"{path} is no study file:", *lines])) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    places = {name: study.of(name).model_copy(update={"path": place}) for name, place in (data or {}).items()}
    given = {name: value for name, value in settings.items() if value is not None}
    return study.model_copy(update={"data": {**study.data, **places}, "settings": {**study.settings, **given}})


def planned(
    study: Study,
    models: Sequence[str] = (),
    datasets: Sequence[str] = (),
    parts: Sequence[str] = (),
    numbers: Sequence[int] = (),
) -> list[Planned]:
    """List the runs of a study, each once, in the file's order; a choice takes those that it names.

    Raises:
        ValueError: a name that the study does not have, or no run is left.
    """
    every = list(_every(study))
    known = {
        "model": (models, {run.config.model for run in every}),
        "data set": (datasets, {run.config.dataset for run in every}),
        "part": (parts, set(study.parts)),
    }
    for what, (names, there) in known.items():
        for name in names:
            if name not in there:
                raise unknown(f"{what} of this study", name, sorted(there))
    runs = [
        run
        for run in every
        if (not models or run.config.model in models)
        and (not datasets or run.config.dataset in datasets)
        and (not parts or set(run.parts) & set(parts))
        and (not numbers or run.number in numbers)
    ]
    if beyond := [str(number) for number in numbers if not 1 <= number <= len(every)]:
        raise ValueError(f"study {study.name!r} has runs 1 to {len(every)}, none of number {', '.join(beyond)}")
    if not runs:
        raise ValueError(f"no run of study {study.name!r} is left by this choice; it has {len(every)}")
    return runs


def parameters(study: Study, part: str, model: str, dataset: str, subset: int = 0) -> dict[str, Any]:
    """Parameters of a part as its notebook takes them, for one model on one data set."""
    one = study.parts[part]
    n = one.n.get(dataset, 100) if isinstance(one.n, Mapping) else one.n
    fields = {"model": model, "dataset": dataset, "dataset_path": study.of(dataset).path, "n": n, "subset": subset}
    own = {*recipes.COMMON, *recipes.own_parameters(one.kind)}
    return {name: value for name, value in study.settings.items() if name in own} | one.settings | fields


def _every(study: Study) -> Iterator[Planned]:
    configs: dict[str, StudyConfig] = {}
    parts: dict[str, list[str]] = {}
    for name, part in study.parts.items():
        for dataset in part.datasets:
            subsets = part.subsets.get(dataset, 1) if isinstance(part.subsets, Mapping) else part.subsets
            for model, subset in itertools.product(part.models, range(subsets)):
                given = parameters(study, name, model, dataset, subset)
                try:
                    config = recipes.config(part.kind, given, _hosted(model))
                    config.suite()  # refuses unknown families and parameters
                except TypeError as error:
                    raise ValueError(f"part {name!r} has a value of a wrong type: {error}") from None
                except ValueError as error:
                    raise ValueError(f"part {name!r}: {error}") from None
                text = config.model_dump_json()
                configs[text] = config
                parts.setdefault(text, []).append(name)
    for number, (text, config) in enumerate(configs.items(), start=1):
        items = dict.fromkeys(item for name in parts[text] for item in study.parts[name].items)
        yield Planned(number, tuple(dict.fromkeys(parts[text])), tuple(items), config)


def _place(loc: Sequence[Any]) -> str:
    """Where an error of pydantic's is; without the names of types that a value may have."""
    return ".".join(str(each) for each in loc if not str(each).startswith(("dict[", "constrained-")))


def _hosted(model: str) -> bool:
    try:
        return is_hosted(model)
    except ModelUnavailable:  # is said where what is missing is listed
        return False


class _Unique(yaml.SafeLoader):
    """A loader that refuses a name that is given twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        if twice := [name for name in names if names.count(name) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _find(file: str | Path) -> Path:
    places = [Path(file).expanduser()]
    if len(Path(file).parts) == 1 and not Path(file).suffix:
        places += [root / "params" / f"{file}.yaml" for root in (PACKAGE.parent, PACKAGE)]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"there is no study file {str(file)!r}; those of vfkit are hi, vf and smoke")


def _check_names(given: Mapping[str, Any], own: Sequence[str], what: str) -> None:
    valid = sorted({*recipes.COMMON, *own} - SET_BY_PART | {"out"})
    for name in given:
        if name not in valid:
            raise unknown(what, name, valid)
