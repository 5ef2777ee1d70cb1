"""`phasewise doctor` as a user runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli_run import one_sentence, phasewise

from phasewise.hardware import doctor as checks
from phasewise.jobs import doctor as job
from phasewise.record.doctor import Finding


def found(**status: str) -> list[Finding]:
    """Findings by key, ``_`` for a space."""
    return [
        Finding(key=key.replace("_", " "), area="a", what=key, status=value, detail="d")  # type: ignore[arg-type]
        for key, value in status.items()
    ]


def verb(name: str, findings: list[Finding]) -> tuple[bool, tuple[str, ...]]:
    (one,) = [verb for verb in job.verbs(findings) if verb.verb == name]
    return one.works, one.lacks


def test_it_ends_well_whatever_it_finds(tmp_path: Path) -> None:
    done = phasewise("doctor", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out
    assert "WHAT WORKS HERE" in done.out
    assert re.search(r"\d+ ok, \d+ missing, \d+ blocked\.", done.out)
    assert list(tmp_path.iterdir()) == []


def test_json_holds_every_line(tmp_path: Path) -> None:
    document = phasewise("doctor", "--json", cwd=tmp_path).document
    assert {line["status"] for line in document["findings"]} <= {"ok", "missing", "blocked"}
    assert all(line["key"] and line["area"] and line["detail"] for line in document["findings"])
    works = {line["verb"]: (line["works"], line["lacks"]) for line in document["verbs"]}
    assert works["trace: Kineto, SQLite, rocprof"] == (True, [])
    assert {len(lacks) > 0 for ok, lacks in works.values() if not ok} <= {True}


def test_a_wrong_argument_is_one_sentence(tmp_path: Path) -> None:
    assert "--nonsense" in one_sentence(phasewise("doctor", "--nonsense", cwd=tmp_path), 2)


def test_a_verb_works_when_each_of_its_needs_is_ok() -> None:
    everything = found(nvidia_driver="ok", ncu="ok", counters="ok", dcgm="ok")
    assert verb("capture --print ncu, here", everything) == (True, ())
    held = found(nvidia_driver="ok", ncu="ok", counters="ok", dcgm="blocked")
    assert verb("capture --print ncu, here", held) == (False, ("dcgm",))
    assert verb("power of the GPU", found(amdsmi="ok")) == (True, ())
    assert verb("power of the GPU", found(gpu_energy="missing")) == (False, ("gpu energy or amdsmi",))
    assert verb("predict, judge, logs, calibrate, report, simulate", []) == (True, ())


def test_a_check_that_fails_is_a_line_and_the_others_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(root: Path) -> list[Finding]:
        raise OSError("no such machine")

    monkeypatch.setattr(job, "CHECKS", (broken, lambda root: found(nsys="ok")))
    examination = job.doctor(Path("/"))
    lines = {line.key: line for line in examination.findings}
    assert lines["nsys"].status == "ok"
    assert "no such machine" in lines["check test_doctor_command"].detail


def test_every_need_of_a_verb_is_a_line_that_some_check_writes() -> None:
    written = "".join(file.read_text(encoding="utf-8") for file in Path(checks.__file__).parent.glob("*.py"))
    needs = {key for use in job.USES for group in use.needs for key in group if not key.startswith("extra ")}
    assert not {key for key in needs if f'"{key}"' not in written}
    extras = {key for use in job.USES for group in use.needs for key in group if key.startswith("extra ")}
    assert extras <= {"extra embedded", "extra torch", "extra ray", "extra ncu"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="receive stamps are Linux's")
def test_the_receive_stamps_are_really_tried() -> None:
    (line,) = job._receive_stamps(Path("/"))
    assert line.status == "ok"
