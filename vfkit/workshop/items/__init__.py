"""Making V-FAT items (VF 3.1): by rule, or by a language model, an independent critic and a person's review.

`python -m vfkit.items --help` lists the commands; each way ends in a V-FAT file (`vfkit.datasets.vfat`).
"""
