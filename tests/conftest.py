"""Paths that all tests share."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The developer's own catalogue rows take no part.
_CONFIG = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["XDG_CONFIG_HOME"] = _CONFIG.name

# A script's background job ignores Ctrl-C, and under nohup a hang-up; so would all that a test starts and ends so.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test asserts an absolute time, and that goes for single examples too.
settings.register_profile("phasewise", deadline=None)
settings.load_profile("phasewise")


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, where a command leaves its run."""
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    return folder
