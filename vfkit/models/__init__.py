"""Models: the registry, loading, and one thin adapter per architecture."""

from vfkit.models.registry import ModelUnavailable, files, find, fingerprint, is_hosted, specs

__all__ = ["ModelUnavailable", "files", "find", "fingerprint", "is_hosted", "load_hosted", "load_model", "specs"]


def __getattr__(name: str):
    if name == "load_hosted":
        from vfkit.models.api import load_hosted

        return load_hosted
    if name == "load_model":  # imports torch and transformers
        from vfkit.models.load import load_model

        return load_model
    raise AttributeError(f"module 'vfkit.models' has no attribute {name!r}")
