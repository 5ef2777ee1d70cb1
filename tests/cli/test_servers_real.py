"""`phasewise profile` and `sweep` on servers that others wrote, with the real small model, beside their own times.

llama.cpp's server always; the vLLM CPU engine and transformers serve where `make engines` has installed them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_run import Done, phasewise
from test_cli_real import accepted, bundled, independent_server

ENGINES = Path(__file__).parents[2] / ".venv-engines"
MODEL = ENGINES / "smollm2"

needs_engines = pytest.mark.skipif(
    not (ENGINES / "engines.stamp").exists(),
    reason="skipped: run `make engines` first; its wheels are for Linux x86-64 only",
)

AGREE = 0.03


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@contextmanager
def serving(log: Path, *command: str, port: int, **variables: str) -> Iterator[str]:
    """``command`` until it answers at /health, in a process group of its own that ends with the context."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **variables}, cwd=log.parent, start_new_session=True
        )
    try:
        until = time.monotonic() + 400
        while not answers(port):
            assert child.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=20)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as page:
            return bool(page.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def profiled(url: str, home: Path, *more: str, model: str, budget: str = "35") -> dict[str, Any]:
    command = ["profile", url, "--model", model, "--on", "this", "--budget", budget, "--timeout", "300", "--json"]
    return believed(*command, *more, cwd=home)


def believed(*command: str, cwd: Path) -> dict[str, Any]:
    """A run that nothing but a busy machine makes doubtful; one that is withheld is run again, as it says, once."""
    for _ in range(2):
        done = phasewise(*command, cwd=cwd, timeout=400)
        if done.code == 0 or accepted(done):
            break
    else:
        pytest.fail(f"exit code {done.code}: {done.err[-500:]} {doubted(done) if done.code == 3 else ''}")
    return done.document


def doubted(done: Done) -> list[Any]:
    """The checks that failed."""
    return [one for one in done.document["checks"] if one["status"] == "failed"]


def check(document: dict[str, Any], name: str, phase: str) -> dict[str, Any]:
    (found,) = [one for one in document["checks"] if (one["name"], one["phase"]) == (name, phase)]
    return dict(found)


def whole(document: dict[str, Any]) -> None:
    """Both phases measured, streamed and judged."""
    assert document["status"] == "complete"
    assert len(document["prefill"]["points"]) >= 3
    assert document["decode"]["tpot_s"] > 0
    assert 0 < document["prefill"]["mfu"] < 1
    assert 0 < document["decode"]["mbu"] < 1
    assert check(document, "streamed", "decode")["status"] == "passed"
    assert check(document, "chunks_per_token", "decode")["status"] == "passed"


def agreeing(document: dict[str, Any], who: str) -> None:
    """Decode steps within 3% of the server's own, and so the longest prefill, which TTFT can only exceed."""
    told = document["server_timings"]
    assert told["who"] == who
    by_phase = {phase: [row for row in told["rows"] if row["phase"] == phase] for phase in ("prefill", "decode")}
    assert len(by_phase["prefill"]) >= 3
    headline = by_phase["decode"][0]
    assert headline["ours_s"] == pytest.approx(headline["theirs_s"], rel=AGREE)
    assert check(document, "timings_agree", "decode")["status"] == "passed"
    longest = max(by_phase["prefill"], key=lambda row: row["tokens"])
    assert longest["ours_s"] == pytest.approx(longest["theirs_s"], rel=AGREE)
    assert all(row["rest_s"] > -0.2e-3 for row in by_phase["prefill"]), "no prefill takes longer than the TTFT it is in"
    assert check(document, "timings_agree", "prefill")["status"] == "passed"


def swept(url: str, home: Path, *more: str, model: str, budget: str = "45") -> dict[str, Any]:
    """A sweep up to batch 8."""
    command = ["sweep", url, "--model", model, "--on", "this", "--budget", budget, "--timeout", "300", "--json"]
    return believed(*command, "--max-batch", "8", "--max-prompt", "512", *more, cwd=home)


def held(document: dict[str, Any]) -> None:
    """Every batch was, and a larger one makes more tokens a second."""
    assert document["status"] == "complete"
    cells = {cell["batch"]: cell for cell in document["decode"]["cells"] if cell["prompt_tokens"] < 64}
    assert {1, 2, 4, 8} <= set(cells)
    for batch, cell in cells.items():
        assert (cell["together"], cell["trouble"]) == (batch, "")
        assert cell["proof"] in ("passed", "not_checked")
    assert cells[8]["gain"] > 1.5
    assert document["decode"]["fit"]["base_s"] > 0
    assert document["mix"]["stalls"]


def histograms(url: str) -> dict[str, tuple[float, float]]:
    """Sum and count of vLLM's own histograms of seconds."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:
        text = page.read().decode()
    found = {}
    for name in ("inter_token_latency_seconds", "time_to_first_token_seconds"):
        lines = [re.findall(rf"^vllm:{name}_{part}{{.*}} (\S+)$", text, re.MULTILINE) for part in ("sum", "count")]
        found[name] = (sum(map(float, lines[0])), sum(map(float, lines[1])))
    return found


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(500)
def test_llama_cpp(home: Path) -> None:
    with independent_server() as url:
        document = profiled(url, home, model=str(bundled()))
    assert document["target"]["engine"] == "llama.cpp"
    whole(document)
    agreeing(document, "llama.cpp's timings")


@needs_engines
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_vllm(home: Path) -> None:
    port = free_port()
    command = [str(ENGINES / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "small", "--max-model-len", "2048"]
    command += ["--enforce-eager", "--no-enable-prefix-caching", "--enable-prompt-tokens-details"]
    command += ["--enable-per-request-metrics"]
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1"}
    with serving(home / "vllm.log", *command, port=port, VLLM_CPU_KVCACHE_SPACE="1", **quiet) as url:
        document = profiled(url, home, model=str(MODEL))
        before = histograms(url)
        sweep = swept(url, home, "--out", str(home / "vllm"), model=str(MODEL))
        after = histograms(url)
    assert document["target"]["engine"] == "vLLM"
    assert document["target"]["prompting"] == "token_ids"
    assert document["target"]["contradictions"] == []
    whole(document)
    agreeing(document, "vLLM's metrics of the request")
    assert check(document, "uncached", "prefill")["status"] == "passed"
    assert document["server_timings"]["queue_s"] < 0.05, "alone on the server"
    held(sweep)
    proofs = [cell["proved_by"] for cell in sweep["decode"]["cells"] if cell["proof"] == "passed"]
    assert any("running and 0 waiting" in one for one in proofs)
    assert check(sweep, "server_timings", "decode")["status"] == "passed"
    # All that it measured, the mix too, against what the server counted: means over the same tokens and prompts.
    ours = f"""SELECT sum(last_token_s - sent_s - ttft_s), sum(completion_tokens - 1), sum(ttft_s), count(*)
        FROM '{home}/vllm/*/requests.parquet' WHERE error IS NULL"""
    seconds, steps, waited, prompts = duckdb.sql(ours).fetchall()[0]
    itl, ttft = (
        [now - then for now, then in zip(after[name], before[name], strict=True)]
        for name in ("inter_token_latency_seconds", "time_to_first_token_seconds")
    )
    assert itl[1] >= steps > 500
    assert ttft[1] >= prompts > 50
    assert seconds / steps == pytest.approx(itl[0] / itl[1], rel=AGREE)
    assert waited / prompts == pytest.approx(ttft[0] / ttft[1], rel=AGREE)


@contextmanager
def transformers_serve(home: Path, *more: str) -> Iterator[str]:
    port = free_port()
    command = [str(ENGINES / "bin" / "transformers"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--device", "cpu", *more, str(MODEL)]
    cache = home / "hub"
    cache.mkdir(exist_ok=True)
    quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    with serving(home / "transformers.log", *command, port=port, **quiet) as url:
        yield url


@needs_engines
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_transformers_serve(home: Path) -> None:
    with transformers_serve(home) as url:
        document = profiled(url, home, "--served-model", str(MODEL), model=str(MODEL), budget="45")
    assert document["target"]["engine"] == "transformers serve"
    assert document["target"]["prompting"] == "text"
    whole(document)
    assert document["server_timings"] is None
    assert document["reasons"]["server_timings"] == "the server told no times of its own"
    assert check(document, "timings_agree", "run")["status"] == "not_checked"


@needs_engines
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_transformers_serve_in_batches(home: Path) -> None:
    """With continuous batching; it publishes no counters and no times, and the report says so."""
    batching = ("--continuous-batching", "--cb-num-blocks", "128", "--cb-block-size", "32")
    with transformers_serve(home, *batching, "--cb-max-batch-tokens", "512") as url:
        document = swept(url, home, "--served-model", str(MODEL), model=str(MODEL), budget="60")
    held(document)
    assert "a token in every step" in document["decode"]["cells"][-1]["proved_by"]
    for name, phase in (("server_timings", "decode"), ("alone", "run"), ("uncached", "prefill")):
        assert check(document, name, phase)["status"] == "not_checked"
    assert "no times of its own" in check(document, "server_timings", "decode")["detail"]
