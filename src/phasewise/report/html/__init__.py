"""HTML: one file that needs nothing else, to read, to send and to print."""

from __future__ import annotations

from phasewise.report.html.page import render

__all__ = ["render"]
