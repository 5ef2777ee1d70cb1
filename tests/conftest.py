"""Paths that all tests share."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# The developer's own catalogue rows take no part.
_CONFIG = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["XDG_CONFIG_HOME"] = _CONFIG.name
