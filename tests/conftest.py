"""Paths that all tests share."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The developer's own catalogue rows take no part.
_CONFIG = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["XDG_CONFIG_HOME"] = _CONFIG.name

# No test asserts an absolute time, and that goes for single examples too.
settings.register_profile("phasewise", deadline=None)
settings.load_profile("phasewise")
