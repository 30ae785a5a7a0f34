"""Shared by all tests: no network, one model, shapes of the readout's tensors checked at every call."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from jaxtyping import install_import_hook

install_import_hook(["vfkit.readout", "vfkit.models"], "beartype.beartype")

import vfkit  # noqa: E402


@pytest.fixture(scope="session")
def vlm():
    """The embedded default model, float32 on the CPU."""
    return vfkit.load_model("mini_qwen3vl", device="cpu")


@pytest.fixture(scope="session")
def tiny_vlm(tmp_path_factory):
    """A shrunken random model of an architecture, by its type and dtype: one of `tiny.ALL`, on the CPU."""
    import tiny

    folders, loaded = {}, {}

    def load(name: str, dtype: str = "float32"):
        if name not in folders:
            folders[name] = tiny.save(name, tmp_path_factory.mktemp(name))
        if (name, dtype) not in loaded:
            loaded[name, dtype] = vfkit.load_model(folders[name], device="cpu", dtype=dtype)
            loaded[name, dtype].max_new_tokens = 4  # random models hardly ever end an answer
        return loaded[name, dtype]

    return load
