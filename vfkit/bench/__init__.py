"""How fast the engine is: beside the way the published program reads, and beside what no engine can do without.

`python -m vfkit.bench` measures all three in one run, on the same samples, model and machine.
"""
