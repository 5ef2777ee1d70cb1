"""Marks on real PyTorch and transformers models, in the engines' Python: see `mark_torch.py` for what is checked."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from engines_python import environment, python

PROGRAM = Path(__file__).with_name("mark_torch.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    env = environment(tmp_path_factory.mktemp("lent"))
    done = subprocess.run([python(), str(PROGRAM)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_marks(told: dict[str, str], name: str) -> None:
    assert told[name] == "", told[name]
