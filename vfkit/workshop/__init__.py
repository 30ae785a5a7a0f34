"""Commands that make what the kit comes with: the embedded models (`zoo`), V-FAT items, the benchmark.

Nothing in the kit imports this package, and a study needs nothing of it.
"""
