"""Models: the registry, loading, and one thin adapter per architecture."""

from importlib import import_module
from typing import TYPE_CHECKING

from vfkit.models.registry import ModelUnavailable, files, find, fingerprint, is_hosted, listing, mode_of, specs

if TYPE_CHECKING:
    from vfkit.models.api import load_hosted as load_hosted
    from vfkit.models.estimate import dry_run as dry_run
    from vfkit.models.load import load_model as load_model
    from vfkit.models.selfcheck import self_check as self_check

_LATER = {
    "load_model": "load",
    "load_hosted": "api",
    "dry_run": "estimate",
    "self_check": "selfcheck",
}  # these import torch

__all__ = ["ModelUnavailable", "files", "find", "fingerprint", "is_hosted", "listing", "mode_of", "specs", *_LATER]

if not TYPE_CHECKING:

    def __getattr__(name: str):
        if name in _LATER:
            return getattr(import_module(f"vfkit.models.{_LATER[name]}"), name)
        raise AttributeError(f"module 'vfkit.models' has no attribute {name!r}")
