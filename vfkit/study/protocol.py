"""Protocols: the settings that decide whether numbers of two studies can agree, and presets of them (METHODS 19).

Three presets: `vfkit`, our own choices; `hi_program`, those of HI's published program; `vf`, those of VF. A study takes
one by name, or one with single fields of its own:

    StudyConfig(..., protocol="hi_program")
    StudyConfig(..., protocol={"preset": "hi_program", "union": 8, "prompts": "their_prompts.yaml"})

Fields that change records are part of the run's key; those that only tables depend on are too, but rows that another
run has read are taken over, not read again.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from vfkit.names import unknown
from vfkit.perturb import ATTACKS, HI_FAMILIES
from vfkit.prompts import WORDING, Wording, load_wording
from vfkit.readout.readout import TAPS

PRESETS: dict[str, dict[str, Any]] = {
    "vfkit": {},
    # HI: option scores in half precision, subsets drawn without strata, the library of its time (4.57), whose last
    # hidden state is before the final norm in Qwen3-VL only, and attacks on the base label's copy of the image
    "hi_program": {
        "sampling": "random",
        "dtype": "float16",
        "scale": "restored",
        "attack": "label_only",
        "tap": {"qwen3_vl": "pre_norm", "qwen3_vl_moe": "pre_norm"},
        "union": 6,
    },
    # VF: every model in its own mode of inference, open answers judged by a language model
    "vf": {"thinking": True, "judge": "deepseek-chat"},
}
ONLY_TABLES = ("tap", "union", "judge")
"""Fields that no record depends on."""
COVERED = ("preset", "sampling", "dtype", "scale", "attack")
"""Fields that other parts of a run's key stand for: data, model and suite."""
UNIONS = {6: HI_FAMILIES, 8: (*HI_FAMILIES, "random_text", "box_overlay")}


class Protocol(BaseModel):
    """Settings of a study that decide a match with published numbers. An unknown field is an error.

    Raises:
        pydantic.ValidationError (a ValueError): an unknown preset or field, or an invalid value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field("vfkit", description="values of fields that are not given: vfkit, hi_program, vf")
    prompts: dict[str, str] | None = Field(
        None, description="wording: a YAML file like params/prompts.yaml, or its templates; None takes ours"
    )
    sampling: Literal["stratified", "random"] = Field(
        "stratified", description="choice of n samples: each category in proportion, or all alike"
    )
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        None, description="of the weights where the study names none; None takes the model's own"
    )
    scale: Literal["scaled", "restored"] = Field(
        "scaled", description="family `scale`: the smaller image, or the same brought back to its size"
    )
    attack: Literal["shared", "label_only"] = Field(
        "shared",
        description="adversarial images: one for all options, eps of values in [0, 1]; or made for the base label's "
        "copy only, eps of values in [-1, 1], and scored against the others on the clean image",
    )
    bands: Literal["log", "equal", "percentile"] = Field("log", description="edges of the bands of spectra")
    thinking: bool = Field(
        False, description="with probes: generated answers of models that think follow their own reasoning"
    )
    tap: dict[str, Literal["pre_norm", "post_norm"]] = Field(
        {}, description="hook point of tables by architecture (model_type); others post_norm"
    )
    union: Literal[6, 8] = Field(6, description="families of the union row: HI's six, or eight with overlay controls")
    judge: str = Field("match", description="of open V-FAT answers: match, or the name of a language model")

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        if isinstance(given, str):  # a mapping as a command line writes it, or a preset
            given = yaml.safe_load(given) if given.lstrip().startswith("{") else {"preset": given}
        if not isinstance(given, Mapping):
            raise ValueError(f"a protocol is one of {', '.join(PRESETS)}, or a mapping of its fields, not {given!r}")
        for name in given:
            if name not in cls.model_fields:
                raise unknown("field of a protocol", name, cls.model_fields)
        if (preset := given.get("preset", "vfkit")) not in PRESETS:
            raise unknown("protocol", preset, PRESETS)
        return PRESETS[preset] | dict(given)

    @field_validator("prompts", mode="before")
    @classmethod
    def _loaded(cls, source: Any) -> Any:
        """Templates of the file, so that a config says all without it; ours are None, however they are given."""
        if source is None:
            return None
        wording = load_wording(source)
        return None if wording == WORDING else asdict(wording)

    @property
    def wording(self) -> Wording:
        return Wording(**self.prompts) if self.prompts else WORDING

    @property
    def union_families(self) -> tuple[str, ...]:
        return UNIONS[self.union]

    def tap_of(self, model_type: str | None) -> str:
        """Hook point that tables take for a model of this architecture."""
        return self.tap.get(model_type or "", TAPS[1])

    def family_params(self, changes: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Parameters of families with those that the protocol sets; the study's own changes go before them."""
        own: dict[str, dict[str, Any]] = {}
        if self.scale != "scaled":
            own["scale"] = {"size": self.scale}
        if self.attack != "shared":
            own |= {family: {"copies": self.attack} for family in ATTACKS}
        changes = dict(changes or {})
        return {family: own.get(family, {}) | (changes.get(family) or {}) for family in {**own, **changes}} or None

    def changes(self, other: "Protocol | None" = None) -> dict[str, Any]:
        """Fields whose values differ from another protocol's, `vfkit` by default, with the values here."""
        theirs = (other or VFKIT).model_dump()
        return {name: value for name, value in self.model_dump().items() if name != "preset" and value != theirs[name]}

    def of_records(self, probes: bool = True) -> dict[str, Any]:
        """Changes from `vfkit` that records depend on and that neither data, model nor suite stand for."""
        only_probes = () if probes else ("bands", "thinking")
        left_out = {*ONLY_TABLES, *COVERED, *only_probes}
        return {name: value for name, value in self.changes().items() if name not in left_out}

    def of_tables(self) -> dict[str, Any]:
        """Changes from `vfkit` that only tables depend on."""
        return {name: value for name, value in self.changes().items() if name in ONLY_TABLES}

    def say(self) -> str:
        """Say in one line how the protocol differs from `vfkit`; empty where it does not."""
        words = [
            f"{name} {'another wording' if name == 'prompts' else value}" for name, value in self.changes().items()
        ]
        return f"Protocol {self.preset}; other than vfkit's own are: {', '.join(words)}" if words else ""


VFKIT = Protocol()
