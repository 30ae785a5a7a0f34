"""`python -m vfkit.mini.card` runs `vfkit.workshop.zoo.card`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("vfkit.workshop.zoo.card", run_name="__main__")
