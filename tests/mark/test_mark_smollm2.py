"""`instrument` on a real small model, in the engines' Python: what `mark_smollm2.py` checks, and its cost."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from engines_python import ROOT, environment, python, smollm2

PROGRAM = Path(__file__).with_name("mark_smollm2.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def output(tmp: Path, *command: str) -> str:
    done = subprocess.run([python(), *command], capture_output=True, text=True, env=environment(tmp), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    lines = output(tmp_path_factory.mktemp("lent"), str(PROGRAM), smollm2()).splitlines()
    found: dict[str, str] = json.loads(lines[-1])
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_smollm2(told: dict[str, str], name: str) -> None:
    assert told[name] == "", told[name]


@pytest.mark.alone
def test_marks_cost_under_a_hundredth_of_a_step(tmp_path: Path) -> None:
    """Medians of costs and steps taken in turns in one process, so that a busy machine slows both."""
    told = output(tmp_path, str(ROOT / "benchmarks/mark.py"), "--model", smollm2(), "--seconds", "20")
    found = re.search(r"(\d+) steps of each kind", told)
    assert found is not None, told
    assert int(found[1]) >= 20, told
    shares = dict(re.findall(r"^(marks, [\w ]+?) +[\d.]+ us +([\d.]+)% of a step", told, re.MULTILINE))
    assert shares.keys() == {"marks, nobody listens", "marks, timed"}, told
    assert all(0 < float(share) < 1 for share in shares.values()), told
