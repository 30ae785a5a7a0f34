"""Models: the registry, loading, and one thin adapter per architecture."""

from importlib import import_module

from vfkit.models.registry import ModelUnavailable, files, find, fingerprint, is_hosted, listing, specs

_LATER = {
    "load_model": "load",
    "load_hosted": "api",
    "dry_run": "estimate",
}  # these import torch

__all__ = ["ModelUnavailable", "files", "find", "fingerprint", "is_hosted", "listing", "specs", *_LATER]


def __getattr__(name: str):
    if name in _LATER:
        return getattr(import_module(f"vfkit.models.{_LATER[name]}"), name)
    raise AttributeError(f"module 'vfkit.models' has no attribute {name!r}")
