"""The targets of benchmarks/accuracy.py, where the public measurements lie beside the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["splitwise", "vidur", "kernels", "serving"])
def test_held_out_errors_and_coverage(name: str) -> None:
    if not (ROOT.parent / "shared" / "data" / "measured").is_dir():
        pytest.skip("skipped: no shared data")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "accuracy.py", name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ": met" in done.stdout
    assert "MISSED" not in done.stdout
    covered = [line for line in done.stdout.splitlines() if ", all " in line]
    assert covered
    for line in covered:
        # The fourth figure of a line: points, plain, calibrated, coverage, width.
        share = float(line.split("%")[-3].split()[-1])
        assert 74 <= share <= 91, line
