"""The samples of finished runs as one HTML file that opens anywhere: no server, no network, no model."""

from vfkit.browse.page import Page, write

__all__ = ["Page", "write"]
