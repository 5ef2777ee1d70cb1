"""`phasewise profile` against simulated servers in other processes: the answer, the gaps, and every kind of failure."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import duckdb
import pytest
from cli_run import COMMAND, environment, one_sentence, phasewise

from phasewise.engines.simulated import Plan, SimulatedServer

FAST = Plan(
    prefill_overhead_s=6.5e-3,
    prefill_per_token_s=2e-5,
    decode_overhead_s=5.5e-3,
    decode_per_request_s=1e-5,
    decode_per_context_token_s=4.6e-8,
    max_context=4096,
)
WHAT_RUNS = ("--model", "llama-3-8b", "--on", "h100-sxm")


def saved(folder: Path) -> Path:
    (run,) = (folder / "phasewise-runs").iterdir()
    return run


def test_the_answer_in_text_json_and_on_disk(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        done = phasewise("profile", server.url, *WHAT_RUNS, "--budget", "6", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    found = done.document
    assert found["verdict"]["owner"] == "decode"
    assert found["verdict"]["bound"] == "memory"
    assert found["prefill"]["fit"]["per_token_s"] == pytest.approx(2e-5, rel=0.03)
    assert found["decode"]["tpot_s"] == pytest.approx(5.51e-3, rel=0.02)
    assert found["decode"]["mbu"] == pytest.approx(
        (15.01e9 + 131_072 * found["decode"]["tpot_context"]) / 3.35e12 / found["decode"]["tpot_s"], rel=0.01
    )
    assert found["split"]["prefill_share"] + found["split"]["decode_share"] == pytest.approx(1)
    assert {check["status"] for check in found["checks"]} <= {"passed", "not_checked"}
    assert any(fix["name"] == "4-bit weights" and fix["phase"] == "decode" for fix in found["fixes"])
    assert any(no["name"] == "4-bit weights" and no["phase"] == "prefill" for no in found["rejected"])
    run = saved(tmp_path)
    assert (run / "report.html").stat().st_size < 2_000_000
    requests = duckdb.sql(f"select count(*), max(prompt_tokens) from '{run}/requests.parquet'").fetchall()[0]
    assert requests[0] == found["sampling"]["requests"]
    used = duckdb.sql(f"select count(*) from '{run}/requests.parquet' where trial = 0 and phase = 'prefill'").fetchall()
    assert used[0][0] == sum(point["samples"] for point in found["prefill"]["points"])
    tokens = duckdb.sql(f"select sum(completion_tokens) from '{run}/requests.parquet'").fetchall()[0]
    assert duckdb.sql(f"select sum(coalesce(tokens, 1)) from '{run}/chunks.parquet'").fetchall()[0] == tokens
    again = phasewise("report", str(run), cwd=tmp_path)
    assert again.code == 0
    assert " ".join(found["verdict"]["text"].split()) in " ".join(again.out.split())
    assert all(len(line) <= 80 for line in again.out.splitlines())
    for form in ("html", "markdown"):
        assert "RECAP" in phasewise("report", "--as", form, cwd=tmp_path).out.upper()


def test_without_model_and_accelerator_times_come_and_utilisations_are_null_with_the_flag(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        found = phasewise("profile", server.url, "--budget", "3", "--json", cwd=tmp_path).document
    assert found["prefill"]["mfu"] is None
    assert found["decode"]["mbu"] is None
    assert "--model" in found["reasons"]["prefill.mfu"]
    assert "--on" in found["reasons"]["decode.mbu"]
    assert found["decode"]["tpot_s"] > 0


def test_one_phase_ranks_nothing_for_the_other(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        found = phasewise(
            "profile", server.url, *WHAT_RUNS, "--budget", "3", "--phase", "prefill", "--json", cwd=tmp_path
        ).document
    assert {fix["phase"] for fix in [*found["fixes"], *found["rejected"]]} == {"prefill"}
    assert found["verdict"]["owner"] is None


def test_more_than_the_machine_can_do_stops_the_verdict(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        done = phasewise(
            "profile", server.url, "--model", "llama-3-70b", "--on", "h100-sxm", "--budget", "3", "--json", cwd=tmp_path
        )
    assert done.code == 3
    assert done.document["alarms"]
    assert done.document["verdict"]["owner"] is None


def test_a_cached_server_is_not_believed(tmp_path: Path) -> None:
    import msgspec

    with SimulatedServer(msgspec.structs.replace(FAST, canned_prefix=4000)) as server:
        done = phasewise("profile", server.url, *WHAT_RUNS, "--budget", "4", "--json", cwd=tmp_path)
    assert done.code == 3
    found = done.document
    assert any(c["name"] == "uncached" and c["status"] == "failed" for c in found["checks"])
    assert found["verdict"]["text"].startswith("No verdict")


def test_a_server_that_dies_leaves_a_partial_run(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        arguments = [*COMMAND, "profile", server.url, *WHAT_RUNS, "--budget", "30", "--json"]
        running = subprocess.Popen(
            arguments,
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(4)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 3, err
    assert '"status": "partial"' in out
    assert (saved(tmp_path) / "requests.parquet").exists()


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        running = subprocess.Popen(
            [*COMMAND, "profile", server.url, *WHAT_RUNS, "--budget", "60"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(4)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in out
    assert "RECAP" in out
    assert saved(tmp_path).exists()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_dead_server_is_one_sentence(tmp_path: Path) -> None:
    sentence = one_sentence(phasewise("profile", f"http://127.0.0.1:{free_port()}", cwd=tmp_path), 3)
    assert "start the server" in sentence
    assert not (tmp_path / "phasewise-runs").exists()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"status": 401}, "API_KEY"),
        ({"status": 429}, "429"),
        ({"status": 500}, "500"),
        ({"html": True}, "LLM"),
        ({"base_path": "/api/llm"}, "path"),
        ({"invalid_sse": True}, ""),
        ({"stall_after": 1}, ""),
        ({"drop_after": 1}, ""),
    ],
)
def test_a_server_that_fails_is_one_sentence(tmp_path: Path, fault: dict[str, object], says: str) -> None:
    import msgspec

    with SimulatedServer(msgspec.structs.replace(FAST, **fault)) as server:
        url = server.url.removesuffix("/api/llm")
        done = phasewise("profile", url, "--budget", "5", "--timeout", "2", cwd=tmp_path)
    assert says in one_sentence(done, 3)


def test_a_key_from_the_environment_opens_the_door_and_is_written_nowhere(tmp_path: Path) -> None:
    with SimulatedServer(FAST, api_key="sk-secret-123") as server:
        shut = phasewise("profile", server.url, "--budget", "3", cwd=tmp_path)
        done = phasewise("profile", server.url, "--budget", "3", cwd=tmp_path, OPENAI_API_KEY="sk-secret-123")
    assert "API_KEY" in one_sentence(shut, 3)
    assert done.code == 0, done.err
    for file in saved(tmp_path).iterdir():
        assert b"sk-secret-123" not in file.read_bytes()


def test_credentials_in_the_url_are_written_nowhere(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        url = server.url.replace("http://", "http://user:hunter2@")
        done = phasewise("profile", f"{url}?token=hunter2", "--budget", "3", cwd=tmp_path)
    for name in os.listdir(tmp_path / "phasewise-runs") if (tmp_path / "phasewise-runs").exists() else ():
        for file in (tmp_path / "phasewise-runs" / name).iterdir():
            assert b"hunter2" not in file.read_bytes()
    assert "hunter2" not in done.out + done.err
