"""The embedded default: a small world of drawn scenes, and miniature models really trained on it."""
