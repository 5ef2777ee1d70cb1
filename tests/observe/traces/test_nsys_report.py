"""Reports, read through an nsys that is only a shell script here: it copies an export that the test made."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from nsys_files import NVTX, band, export, named

from phasewise.errors import InputError
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import nsys_report

HEAD = b"NVIDIA Tegra Profiler Report 2024@6@2@225-246235244400v0.\n\x0bLocal (CLI)"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "user's folder"
    folder.mkdir()
    path = folder / "run 1.nsys-rep"
    path.write_bytes(HEAD)
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def read(path: Path) -> object:
    opened = Opened(path)
    assert nsys_report.sniff(opened)
    return nsys_report.read(opened, lambda what, done: None)


def test_without_nsys_the_command_is_given(report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"nsys export --type sqlite --output 'run 1\.sqlite' 'run 1\.nsys-rep'`"):
        read(report)


@pytest.mark.parametrize("packed", [False, True])
def test_nsys_exports_outside_of_the_users_folder(
    report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: bool
) -> None:
    made = export(tmp_path / "made.sqlite", {NVTX: [band(1, 2, "prefill")]})
    if packed:
        report.write_bytes(gzip.compress(HEAD))
    install(tmp_path, monkeypatch, f'echo "$@" > "{tmp_path}/said"; cp "{made}" "$5"; grep -q Tegra "$6"')
    trace = nsys_report.read(Opened(report), lambda what, done: None)
    assert named(trace, trace.bands.name) == ["prefill"]
    assert trace.sources[0].path == str(report)
    said = (tmp_path / "said").read_text()
    assert said.startswith("export --type sqlite --output ")
    assert str(report.parent) not in said.split("--output")[1].split()[0]
    assert [one.name for one in report.parent.iterdir()] == [report.name]


def test_what_nsys_says_is_passed_on(report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path, monkeypatch, "echo 'Unsupported file version' >&2; exit 1")
    with pytest.raises(InputError, match=r"run 1\.nsys-rep \(it said: Unsupported file version\)"):
        read(report)


def test_an_nsys_that_writes_nothing_has_failed(report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path, monkeypatch, "exit 0")
    with pytest.raises(InputError, match="it said: nothing"):
        read(report)
