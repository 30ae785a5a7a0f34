"""Kinds of runs: from a notebook's parameters to the config of a run, for notebooks and study files alike.

Both go through `config`, so equal parameters name equal runs, whichever of the two makes them:

    run_study(recipes.config("pope", {"model": "qwen3vl_2b", "dataset": "pope", "n": 500}))
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vfkit.names import unknown
from vfkit.perturb import ATTACKS, NATURAL_FAMILIES
from vfkit.perturb.severity import settings
from vfkit.study.config import StudyConfig
from vfkit.study.hosted import answers_only

NOISE = ("noise_low", "noise_high", "noise_all")
COMMON = (
    *("model", "dataset", "dataset_path", "dataset_options", "n", "seed", "subset", "rule", "protocol", "out"),
    *("max_new_tokens", "device", "dtype", "batch_tokens", "chunk", "ahead", "verify"),
    *("engine", "workers", "gpus_per_worker", "cpus_per_worker", "retries"),
)
"""Parameters that are fields of `StudyConfig`, of every kind."""
BASELINE = ("mini_vfat", "vlind", "weird", "cdh_bench", "visual_counterfact")
"""Data sets whose loader takes `baseline`; in `vfat` files L0 has rows of its own."""


def perturbation(
    families: Sequence[str] | None = None,
    family_params: Mapping[str, Any] | None = None,
    blanks: Sequence[str] = (),
    probes: bool = True,
    keep_vectors: bool = False,
) -> dict[str, Any]:
    """Natural perturbations, blank images, and what moves inside (HI 3 to 5; notebooks 01 and 02)."""
    if blanks:
        families = [*(NATURAL_FAMILIES if families is None else families), "blank"]
        family_params = dict(family_params or {}) | {"blank": {"fill": list(blanks)}}
    own = {"families": families, "family_params": family_params, "probes": probes, "keep_vectors": keep_vectors}
    return own | {"study": "perturbation"}


def spectral(noise: Sequence[float] = (1, 2, 4, 8, 16), trials: int = 5) -> dict[str, Any]:
    """Noise of three bands, sizes in grey levels, and ablation of frequencies (HI 6; notebook 03)."""
    changes = {band: {"trials": trials, "eps": [size / 255 for size in noise]} for band in NOISE}
    families = ["identity", *NOISE, "low_pass", "high_pass"]
    return {"study": "spectral", "families": families, "family_params": changes}


def louder(noise: Sequence[float], trials: int = 5) -> dict[str, Any]:
    """Noise of larger sizes, for images that the sizes of `spectral` leave unchanged (notebook 03)."""
    changes = {band: {"trials": trials, "eps": [size / 255 for size in noise]} for band in NOISE}
    return {"study": "louder", "families": list(NOISE), "family_params": changes}


def attack(eps: float = 8, paper_eps: float = 4, step: float = 2, steps: int = 10, target: str = "") -> dict[str, Any]:
    """Adversarial images of three bands, eps and step in grey levels (HI 6, F.3; notebook 03)."""
    pgd = {"eps": sorted({paper_eps / 255, eps / 255}), "step": step / 255, "steps": steps, "target": target}
    changes = dict.fromkeys(ATTACKS, pgd)
    return {"study": "attack", "families": ["identity", *ATTACKS], "family_params": changes, "probes": True}


def pope(
    families: Sequence[str] | None = None,
    blanks: Sequence[str] = ("white", "none"),
    noise: float = 32,
    probes: bool = True,
) -> dict[str, Any]:
    """Natural perturbations, noise and blank images of yes/no questions (HI 7, D; notebook 04)."""
    bands = NOISE if noise else ()
    changes: dict[str, Any] = {band: {"eps": [noise / 255], "scaling": "rms", "trials": 2} for band in bands}
    chosen = dict.fromkeys([*(NATURAL_FAMILIES if families is None else families), *bands, "blank"])
    changes |= {"blank": {"fill": list(blanks)}}
    return {"study": "pope", "families": list(chosen), "family_params": changes, "probes": probes}


def vfat(baseline: bool = True, probes: bool = True) -> dict[str, Any]:
    """Misleading prompts on images that are not perturbed (VF; notebook 05)."""
    return {"study": "vfat", "families": (), "probes": probes, "baseline": baseline}


def severity(
    kinds: Sequence[str] | None = None, strengths: Mapping[str, Sequence[float]] | None = None, probes: bool = True
) -> dict[str, Any]:
    """Perturbations of growing strength (METHODS 17; notebook 06)."""
    return {"study": "severity", "probes": probes} | settings(kinds, strengths)


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (perturbation, spectral, louder, attack, pope, vfat, severity)
}


def own_parameters(kind: str) -> list[str]:
    """Names of the parameters that only this kind of run has.

    Raises:
        ValueError: unknown kind; the nearest valid one is named.
    """
    if kind not in KINDS:
        raise unknown("kind of run", kind, KINDS)
    return list(inspect.signature(KINDS[kind]).parameters)


def config(kind: str, parameters: Mapping[str, Any], hosted: bool | None = None, **changes: Any) -> StudyConfig:
    """Config of a run of one kind.

    Args:
        kind: a key of `KINDS`.
        parameters: a notebook's; those that neither this kind nor `COMMON` has are left out, since notebooks have
            others too, of their tables and figures.
        hosted: the model is hosted: no probes, which need its states. None looks it up.
        changes: parameters that go before the others.

    Raises:
        ValueError: unknown kind, or invalid values (`StudyConfig`).
    """
    given = dict(parameters) | changes
    own = KINDS[kind](**{name: given[name] for name in own_parameters(kind) if name in given})
    fields = {name: given[name] for name in COMMON if name in given}
    if own.pop("baseline", False) and fields.get("dataset") in BASELINE:
        fields["dataset_options"] = {"baseline": True} | (fields.get("dataset_options") or {})
    hosted = answers_only(given["model"]) if hosted is None and "model" in given else hosted
    if hosted and own.get("probes"):
        own["probes"] = False
    return StudyConfig(**fields | own)
