"""Standard streams and signals: closed, full, of another encoding, left by their reader; Ctrl-C and SIGTERM."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_run import COMMAND, environment

from phasewise.engines.simulated import Plan, SimulatedServer

PREDICT = "predict llama-3-8b --on h100-sxm"
FAST = Plan(prefill_overhead_s=3e-3, prefill_per_token_s=1e-6, decode_overhead_s=1e-3, max_context=2048)


def shell(arguments: str, after: str, cwd: Path, **variables: str) -> tuple[int, bytes, str]:
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(COMMAND)} {arguments} {after}"],
        cwd=cwd,
        env=environment(cwd) | variables,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


GRID = f"{PREDICT} --grid lengths=1..500+1"


@pytest.mark.parametrize(
    "arguments", [PREDICT, f"{PREDICT} --json", GRID, f"{GRID} --csv -", "models", "--help", "--version"]
)
def test_a_full_disk_behind_stdout_is_one_sentence(tmp_path: Path, arguments: str) -> None:
    code, _, err = shell(arguments, "> /dev/full", tmp_path)
    assert (code, err.count("\n")) == (2, 1), err
    assert "No space left" in err


@pytest.mark.parametrize("arguments", [PREDICT, f"{PREDICT} --json", f"{GRID} --csv -", "accelerators"])
def test_a_closed_stdout_is_one_sentence(tmp_path: Path, arguments: str) -> None:
    code, _, err = shell(arguments, ">&-", tmp_path)
    assert (code, err) == (2, "phasewise: standard output is closed: nothing can be shown.\n")


@pytest.mark.parametrize("arguments", [PREDICT, f"{PREDICT} --json", f"{GRID} --csv -", "accelerators"])
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, arguments: str) -> None:
    code, out, err = shell(arguments, '| true; exit "${PIPESTATUS[0]}"', tmp_path)
    assert (code, out, err) == (0, b"", "")


def test_a_closed_stderr_does_not_move_the_error_to_stdout(tmp_path: Path) -> None:
    assert shell("predict", "2>&-", tmp_path)[:2] == (2, b"")
    assert shell("predict", "2> /dev/full", tmp_path)[:2] == (2, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_documents_are_utf8_whatever_the_encoding(tmp_path: Path, encoding: str) -> None:
    with SimulatedServer(FAST) as server:
        done = shell(f"profile {server.url} --budget 1 --served-model {FAST.model}", "", tmp_path)
    assert done[0] == 0, done
    whole = {form: shell(f"report --as {form}", "", tmp_path, PYTHONIOENCODING="utf-8")[1] for form in ("html", "json")}
    for form, expected in whole.items():
        code, out, err = shell(f"report --as {form}", "", tmp_path, PYTHONIOENCODING=encoding)
        assert (code, out, err) == (0, expected, "")
    code, out, err = shell("report", "", tmp_path, PYTHONIOENCODING=encoding)
    assert (code, err) == (0, "")
    assert out.isascii()


def test_ctrl_c_while_python_imports_is_no_traceback(tmp_path: Path) -> None:
    for module in ("typer", "phasewise.cli.report", "phasewise.jobs.predict", "rich.console"):
        program = (
            "import sys\n"
            "class Stop:\n"
            "    def find_spec(self, name, *rest):\n"
            f"        if name == {module!r}: raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Stop())\n"
            "from phasewise.cli import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *PREDICT.split()],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 130, (module, done)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_probing_says_that_nothing_was_measured(
    tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        running = start(tmp_path, "profile", url)
        silent.settimeout(30)
        connection, _ = silent.accept()
        time.sleep(0.3)
        running.send_signal(signum)
        out, err = running.communicate(timeout=30)
        connection.close()
    assert (running.returncode, out, err) == (code, "", "phasewise: Interrupted: nothing was measured.\n")
    assert not (tmp_path / "phasewise-runs").exists()


def test_sigterm_while_measuring_keeps_what_was_measured(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        running = start(tmp_path, "profile", server.url, "--budget", "60", "--json")
        time.sleep(4)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 143, err
    assert err == ""
    assert json.loads(out)["run"]["reason"] == "ended by SIGTERM"
    (saved,) = (tmp_path / "phasewise-runs").iterdir()
    assert {file.name for file in saved.iterdir()} == {"run.json", "requests.parquet", "chunks.parquet", "report.html"}


def start(cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_package_is_the_command(tmp_path: Path) -> None:
    """Where its script is not on the PATH, and before a program that wants a Python to run."""
    done = subprocess.run(
        [sys.executable, "-m", "phasewise", "nonsense"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n"), done.stderr[:10]) == (2, 1, "phasewise:")
