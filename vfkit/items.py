"""`python -m vfkit.items` runs `vfkit.workshop.items`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("vfkit.workshop.items", run_name="__main__")
