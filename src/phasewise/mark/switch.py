"""The switch that the plugins for engines obey. Nothing heavy is imported here: every process of an engine does."""

from __future__ import annotations

import logging
import os

SWITCH = "PHASEWISE_MARK"
"""``1`` marks the engine's steps; without it a plugin does nothing."""


def switched_on(logger: logging.Logger) -> bool:
    """Whether the user asked for marks; a value that says neither yes nor no is warned of."""
    said = os.environ.get(SWITCH, "")
    if said not in ("", "0", "1"):
        logger.warning("phasewise: %s=%s marks nothing: set it to 1.", SWITCH, said)
    return said == "1"
