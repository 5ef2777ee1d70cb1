"""GitHub-flavoured Markdown, for pasting a run into an issue."""

from __future__ import annotations

from phasewise.report.markdown.profiled import profile

__all__ = ["profile"]
