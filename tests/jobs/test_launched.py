"""The command line under Nsight: the recipe's, with the user's program and our report in it."""

from __future__ import annotations

from pathlib import Path

from phasewise.jobs.launched import command_line


def test_nsys() -> None:
    line, report = command_line("nsys", "mixed", ("python", "own.py", "--output=mine"), Path("/run"))
    assert line[:2] == ["nsys", "profile"]
    assert line[-3:] == ["python", "own.py", "--output=mine"]
    assert "--output=/run/mixed" in line
    assert "--cuda-graph-trace=graph" in line, "one that keeps times true"
    assert report == Path("/run/mixed.nsys-rep")


def test_ncu_takes_one_phase_a_run() -> None:
    for name in ("prefill", "decode"):
        line, report = command_line("ncu", name, ("./own",), Path("/run"))
        assert line[line.index("--export") + 1] == f"/run/{name}"
        assert any(word.startswith("regex:phasewise:") and name in word for word in line)
        assert line[-1] == "./own"
        assert report.name == f"{name}.ncu-rep"
