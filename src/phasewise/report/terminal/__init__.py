"""The terminal: readable at 80 columns, without colour, and through a pipe."""

from __future__ import annotations

from phasewise.report.terminal.console import print_report, to_text
from phasewise.report.terminal.predicted import prediction
from phasewise.report.terminal.profiled import profile

__all__ = ["prediction", "print_report", "profile", "to_text"]
