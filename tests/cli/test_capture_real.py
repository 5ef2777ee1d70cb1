"""`phasewise capture` on the real vLLM CPU engine and on transformers in process, with the real small model."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_run import COMMAND, phasewise
from test_servers_real import free_port, serving

from engines_python import environment, python, smollm2

ASKED = ("--prompt", "256", "--requests", "3", "--steps", "8", "--budget", "15")


@contextmanager
def vllm(home: Path, profiler: dict[str, Any] | None, *flags: str) -> Iterator[str]:
    port = free_port()
    command = [python(), "-m", "vllm.entrypoints.openai.api_server", "--model", smollm2(), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--served-model-name", "small", "--max-model-len", "2048", "--enforce-eager"]
    command += ["--enable-prompt-tokens-details", *flags]
    command += ["--profiler-config", json.dumps(profiler)] if profiler else []
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1"}
    with serving(home / "vllm.log", *command, port=port, VLLM_CPU_KVCACHE_SPACE="1", **quiet) as url:
        yield url


def torch_profiler(folder: Path) -> dict[str, Any]:
    return {"profiler": "torch", "torch_profiler_dir": str(folder), "torch_profiler_with_stack": False}


def post(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=120) as answer:
        return int(answer.status)


def clean(one: dict[str, Any]) -> None:
    """All of its checks passed."""
    assert {check["name"]: check for check in one["checks"] if check["status"] != "passed"} == {}


def believed(code: int, document: dict[str, Any]) -> None:
    """All is there; only a busy machine may have made the timed run doubtful."""
    doubts = [check for check in document["timed_checks"] if check["status"] == "failed" and check["voids"]]
    assert document["status"] == "complete"
    assert code == (3 if doubts else 0), document["notices"]
    assert {check["name"] for check in doubts} <= {"quiet", "client"}, doubts


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_vllm(tmp_path: Path) -> None:
    with vllm(tmp_path, torch_profiler(tmp_path / "traces")) as url:
        done = phasewise("capture", url, *ASKED, "--mix", "--json", cwd=tmp_path, timeout=300)
        believed(done.code, done.document)
        # Found as it was left: a profile can be started, is then somebody's, and goes on after ours was refused.
        assert post(f"{url}/start_profile") == 200
        refused = phasewise("capture", url, *ASKED, "--phase", "prefill", cwd=tmp_path, timeout=200)
        assert refused.code == 3
        assert "was left alone" in refused.err
        assert post(f"{url}/stop_profile") == 200
    document = done.document
    phases = document["capture"]["phases"]
    prefill, decode, mixed = phases["prefill"], phases["decode"], phases["mixed"]
    for one in (prefill, decode, mixed):
        clean(one)
    steps = [step for step in document["steps"] if step["rank"] == 0]
    assert [(step["phase"], step["prefill"]["tokens"], step["decode"]) for step in steps] == [
        ("prefill", 256, None)
    ] * 3
    steps = [step for step in document["steps"] if step["rank"] == 1]
    assert [(step["phase"], step["prefill"], step["decode"]["tokens"]) for step in steps] == [("decode", None, 1)] * 8
    for one in (prefill, decode):
        agrees = abs(one["trace_s"] - one["client_s"]) <= 0.05 * one["client_s"]
        assert one["agrees"] is agrees
        assert sum(part["seconds"] for part in one["parts"]) == pytest.approx(one["client_s"])
    # Of the same few steps, in the same recording, both clocks must say the same, but for when the client wakes.
    assert decode["trace_s"] == pytest.approx(decode["client_profiled_s"], rel=0.1)
    assert 0.9 * prefill["client_profiled_s"] < prefill["trace_s"] <= prefill["client_profiled_s"]
    for step in mixed["marked"]:
        prompts = step["prefill"]["tokens"] if step["prefill"] else 0
        answers = step["decode"]["tokens"] if step["decode"] else 0
        assert step["label"] == f"execute_context_{int(prompts > 0)}({prompts})_generation_{answers}({answers})"
        assert step["phase"] == ("mixed" if prompts and answers else "prefill" if prompts else "decode")
    assert mixed["steps"]["mixed"] >= 3


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_vllm_decodes_a_batch(tmp_path: Path) -> None:
    """Four requests held together, by the client and in the trace; the server runs four at once and no more."""
    conf = {**torch_profiler(tmp_path / "traces"), "detailed_trace_annotation": True}
    with vllm(tmp_path, conf, "--max-num-seqs", "4") as url:
        done = phasewise("capture", url, *ASKED, "--batch", "4", "--json", cwd=tmp_path, timeout=300)
        more = phasewise("capture", url, *ASKED, "--batch", "6", "--phase", "decode", cwd=tmp_path, timeout=300)
    believed(done.code, done.document)
    found = done.document["capture"]
    decode, held = found["phases"]["decode"], found["held"]
    clean(decode)
    assert (decode["batch"], decode["steps"]) == (4, {"decode": 8})
    steps = [step["decode"] for step in done.document["steps"] if step["rank"] == 1]
    assert [(step["requests"], step["tokens"]) for step in steps] == [(4, 4)] * 8
    contexts = [step["context"] for step in steps]
    assert contexts == [contexts[0] + 4 * number for number in range(8)]
    assert 4 * 256 < contexts[0] < 4 * (256 + 300)
    assert (held["batch"], held["together"], held["proof"], held["trouble"]) == (4, 4, "passed", "")
    assert decode["client_s"] == held["step_s"]
    assert decode["agrees"] is (abs(decode["trace_s"] - held["step_s"]) <= 0.05 * held["step_s"])
    assert sum(part["seconds"] for part in decode["parts"]) == pytest.approx(decode["client_s"])
    # Of the same few steps, in the same recording, both clocks must say the same, but for when the client wakes.
    assert decode["trace_s"] == pytest.approx(decode["client_profiled_s"], rel=0.1)
    assert more.code == 2
    assert "ran 4 of 6 requests at once" in more.err
    assert "--max-num-seqs" in more.err
    assert len(more.err.strip().splitlines()) == 1


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_vllm_whose_profiler_cannot_write(tmp_path: Path) -> None:
    """Its folder would lie under a file: vLLM stops with HTTP 200 and says why in its log only."""
    (tmp_path / "file").write_text("no folder")
    with vllm(tmp_path, torch_profiler(tmp_path / "file" / "traces")) as url:
        done = phasewise("capture", url, *ASKED, "--phase", "prefill", "--timeout", "5", cwd=tmp_path, timeout=200)
        assert done.code == 3
        assert "no trace came into" in done.err
        assert len(done.err.strip().splitlines()) == 1


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_vllm_without_a_profiler(tmp_path: Path) -> None:
    with vllm(tmp_path, None) as url:
        done = phasewise("capture", url, *ASKED, cwd=tmp_path, timeout=200)
    assert done.code == 2
    assert "--profiler-config" in done.err


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("batch", [1, 4])
def test_transformers_in_process(tmp_path: Path, batch: int) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    command = [python(), *COMMAND[1:], "capture", f"hf:{smollm2()}", "--threads", "1", *ASKED]
    command += ["--batch", str(batch), "--json"]
    done = subprocess.run(
        command, env=environment(lent), cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    document = json.loads(done.stdout)
    believed(done.returncode, document)
    phases = document["capture"]["phases"]
    for one in phases.values():
        clean(one)
    assert phases["prefill"]["steps"] == {"prefill": 3}
    assert phases["decode"]["steps"] == {"decode": 8}
    steps = [step["decode"] for step in document["steps"] if step["rank"] == 1]
    assert [(step["requests"], step["tokens"]) for step in steps] == [(batch, batch)] * 8
    assert [step["context"] for step in steps] == [batch * (257 + number) for number in range(8)]
    assert (document["capture"]["held"]["batch"], document["capture"]["held"]["trouble"]) == (batch, "")
