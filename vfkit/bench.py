"""`python -m vfkit.bench` runs `vfkit.workshop.bench`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("vfkit.workshop.bench", run_name="__main__")
