"""`python -m vfkit.mini.train` runs `vfkit.workshop.zoo.train`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("vfkit.workshop.zoo.train", run_name="__main__")
