"""JSON: the documents that ``--json`` prints, key for key as docs/report.md lists them."""

from __future__ import annotations

from phasewise.report.json.leaves import document
from phasewise.report.json.predicted import prediction
from phasewise.report.json.profiled import profile

__all__ = ["document", "prediction", "profile"]
