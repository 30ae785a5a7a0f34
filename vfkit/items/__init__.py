"""Building V-FAT items (VF 3.1): by rule, or by a language model with a critic and then people.

`python -m vfkit.items --help` says how. Either way ends in a V-FAT file (`vfkit.datasets.vfat`).
"""
