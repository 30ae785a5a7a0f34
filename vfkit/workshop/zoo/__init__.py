"""Training of the embedded models: `python -m vfkit.mini.train NAME`, then `python -m vfkit.mini.card NAME`."""
