"""`phasewise capture` as a user runs it: mistakes, Ctrl-C, pipes, a command of one's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_run import COMMAND, environment, one_sentence, phasewise

from capture_server import Planted, Server
from kineto_by_hand import write

QUICK = ("--prompt", "64", "--steps", "4", "--requests", "2", "--budget", "1")


def test_json_has_stdout_for_itself(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces")) as server:
        done = phasewise("capture", server.url, *QUICK, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["capture"]["phases"]["prefill"]["steps"] == {"prefill": 2}
    assert document["capture"]["phases"]["decode"]["steps"] == {"decode": 4}
    (run,) = (tmp_path / "phasewise-runs").iterdir()
    assert (run / "report.html").exists()
    again = phasewise("report", str(run), cwd=tmp_path)
    assert "CLIENT BESIDE TRACE" in again.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:9/x y"], "http"),
        (["hf:/nowhere", "--mix"], "--mix needs a server"),
        ([], "Name a TARGET"),
        (["true"], "no target"),
        (["--print", "nsys", "--engine", "vllm", "http://127.0.0.1:9"], "leave out"),
        (["--print", "nsys", "--engine", "own", "--under", "nsys", "--", "true"], "leave out"),
        (["gguf:model.gguf"], "--print nsys"),
        (["http://127.0.0.1:9", "more"], "too many"),
        (["--under", "nsys"], "needs a command"),
        (["--engine", "vllm"], "give --print"),
        (["--print", "nsys"], "--engine"),
        (["--under", "nsys", "--", "true"], "not on the PATH"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    said = one_sentence(phasewise("capture", *arguments, cwd=tmp_path, PATH="/nonexistent"), 2)
    assert words in said


def test_nobody_answers(tmp_path: Path) -> None:
    one_sentence(phasewise("capture", "http://127.0.0.1:9", cwd=tmp_path), 3)
    assert not (tmp_path / "phasewise-runs").exists()


def test_ctrl_c_stops_the_profiler_and_keeps_what_came(tmp_path: Path) -> None:
    """It comes while decode is recorded: prefill's trace is read, and the server's profiler does not run on."""
    with Server(Planted(tmp_path / "traces", step=20e-3)) as server:
        child = subprocess.Popen(
            [*COMMAND, "capture", server.url, *QUICK[:-4], "--steps", "100", "--budget", "1", "--json"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until = time.monotonic() + 60
        while len(server.named("start_profile")) < 2:
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        assert len(server.named("stop_profile")) == 2
        assert not server.active
    assert child.returncode == 130, err
    document = json.loads(out)
    assert document["status"] == "interrupted"
    assert list(document["capture"]["phases"]) == ["prefill"]
    assert document["capture"]["phases"]["prefill"]["steps"] == {"prefill": 3}


def test_a_command_of_ones_own(tmp_path: Path) -> None:
    """Under a tool of the same name that runs the command and writes a report, as nsys does."""
    trace = write(tmp_path / "made.json", rank=None)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nsys").write_text(
        f"#!{sys.executable}\n"
        "import shutil, subprocess, sys\n"
        "(at,) = [i for i, word in enumerate(sys.argv) if word.startswith('--output=')]\n"
        "assert sys.argv[1] == 'profile' and '--cuda-graph-trace=graph' in sys.argv\n"
        "code = subprocess.call(sys.argv[at + 1:])\n"
        f"shutil.copy({str(trace)!r}, sys.argv[at][9:] + '.nsys-rep')\n"
        "sys.exit(code)\n"
    )
    (tools / "nsys").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    program = ["capture", "--under", "nsys", "--json", "--", sys.executable, "-c"]
    done = phasewise(*program, "print('out of the way')", cwd=tmp_path, PATH=path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["kernels_total"] == 3
    assert "out of the way" in done.err
    failed = phasewise(*program, "raise SystemExit(4)", cwd=tmp_path, PATH=path)
    assert failed.code == 3
    assert json.loads(failed.out)["status"] == "partial"


def test_a_recording_that_nothing_imports_is_named(tmp_path: Path) -> None:
    """As Debian's nsys leaves one: it ends with 0, beside a .qdstrm and no report."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nsys").write_text(
        '#!/bin/sh\nfor word; do case $word in --output=*) : > "${word#*=}.qdstrm";; esac; done\n'
    )
    (tools / "nsys").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    said = one_sentence(phasewise("capture", "--under", "nsys", "--", "true", cwd=tmp_path, PATH=path), 2)
    (raw,) = (tmp_path / "phasewise-runs").glob("*/traces/mixed.qdstrm")
    assert f"QdstrmImporter -i {raw.relative_to(tmp_path)}" in said


def test_print_runs_nothing(tmp_path: Path) -> None:
    done = phasewise("capture", "--print", "nsys", "--engine", "vllm", cwd=tmp_path)
    assert done.code == 0
    assert "--trace-fork-before-exec=true" in done.out
    document = phasewise("capture", "--print", "torch", "--engine", "sglang", "--json", cwd=tmp_path).document
    assert document["commands"]
    assert list(tmp_path.iterdir()) == []
