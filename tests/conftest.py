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
