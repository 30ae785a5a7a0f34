"""The embedded world: drawn scenes, questions about them, and the checkpoints of models trained on them."""
