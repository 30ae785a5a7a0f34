"""The `vfkit` command: what it lists, and that it hands over."""

import subprocess
import sys

import pytest

from vfkit.__main__ import COMMANDS, overview
from vfkit.datasets import LOADERS
from vfkit.models.registry import specs


def vfkit(*arguments):
    return subprocess.run([sys.executable, "-m", "vfkit", *arguments], capture_output=True, text=True)


def test_overview_names_everything():
    words = overview().replace(",", " ").split()
    assert {*COMMANDS, *LOADERS, *specs()} <= set(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    done = vfkit(name, "--help")
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


def test_a_wrong_command_is_one_line_with_the_nearest():
    done = vfkit("brows")
    assert done.returncode == 1 and "did you mean 'browse'" in done.stderr and done.stderr.count("\n") == 1
