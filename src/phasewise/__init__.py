"""phasewise: profile prefill and decode apart, predict each first, and name the fix."""

from __future__ import annotations

__version__ = "0.1.0"
