"""The benchmark: the engine against the naive protocol, and against the least work that any engine must do.

`python -m vfkit.bench` measures all three in one run, on the same samples, model and machine.
"""
