"""`phasewise sweep` against simulated servers in other processes: the document, the mistakes, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_run import COMMAND, environment, one_sentence, phasewise

from phasewise.engines.simulated import Plan, SimulatedServer

FAST = Plan(
    prefill_overhead_s=4e-3,
    prefill_per_token_s=2e-5,
    decode_overhead_s=5.5e-3,
    decode_per_request_s=5e-5,
    decode_per_context_token_s=4.6e-8,
    max_context=4096,
)
WHAT_RUNS = ("--model", "llama-3-8b", "--on", "h100-sxm")
SMALL = ("--max-batch", "4", "--max-prompt", "512")


def saved(folder: Path) -> Path:
    (run,) = (folder / "phasewise-runs").iterdir()
    return run


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, str]:
    home = tmp_path_factory.mktemp("swept")
    with SimulatedServer(FAST) as server:
        done = phasewise(
            "sweep", server.url, *WHAT_RUNS, *SMALL, "--budget", "10s", "--itl", "12ms", "--json", cwd=home
        )
    assert done.code == 0, done.err
    return done.document, home, done.err


def test_the_document(swept: tuple[dict[str, Any], Path, str]) -> None:
    found, home, err = swept
    assert found["verdict"]["text"].startswith("Batch 4 gives ×")
    fit = found["decode"]["fit"]
    assert fit["base_s"] == pytest.approx(5.5e-3, rel=0.02)
    assert found["verdict"]["gain_batch"] == 4
    assert found["verdict"]["gain_predicted"] == pytest.approx(4, rel=0.02)
    assert found["decode"]["ridge_tokens"] == pytest.approx(295, abs=1)
    assert {cell["proof"] for cell in found["decode"]["cells"]} == {"passed"}
    assert [row["prompts"] for row in found["prefill"]["at_once"]] == [1, 2, 4]
    for stall in found["mix"]["stalls"]:
        assert stall["stall_s"] == pytest.approx(4e-3 + 2e-5 * stall["tokens"], rel=0.06, abs=3e-4)
    assert [one["name"] for one in found["advice"]] == ["chunk size", "disaggregation"]
    assert any("KV cache" in line for line in found["advice"][1]["arithmetic"])
    assert {check["status"] for check in found["checks"]} <= {"passed", "not_checked"}
    # The plan goes before anything is measured, and not to stdout.
    assert err.startswith("Plan: ")
    run = saved(home)
    (rows,) = duckdb.sql(f"select count(*) from '{run}/requests.parquet' where error is null").fetchall()[0]
    assert rows == found["sampling"]["requests"]
    unlike = f"""select request from '{run}/requests.parquet' r where completion_tokens !=
        (select sum(tokens) from '{run}/chunks.parquet' c where c.request = r.request)"""
    assert duckdb.sql(unlike).fetchall() == []
    assert not (run / "rows").exists()


def test_a_saved_sweep_in_every_form(swept: tuple[dict[str, Any], Path, str]) -> None:
    found, home, _ = swept
    again = phasewise("report", cwd=home)
    assert again.code == 0
    assert " ".join(found["verdict"]["text"].split()) in " ".join(again.out.split())
    for form in ("html", "markdown"):
        assert "RECAP" in phasewise("report", "--as", form, cwd=home).out.upper()
    assert phasewise("report", "--json", cwd=home).document == found
    assert (saved(home) / "report.html").stat().st_size < 1_000_000


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        running = subprocess.Popen(
            [*COMMAND, "sweep", server.url, *SMALL, "--budget", "60s", "--json"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(12)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert '"status": "interrupted"' in out
    assert "what was measured until then is below" in out
    assert (saved(tmp_path) / "run.json").exists()


@pytest.mark.alone
@pytest.mark.slow
def test_a_server_that_dies_leaves_a_partial_run(tmp_path: Path) -> None:
    with SimulatedServer(FAST) as server:
        running = subprocess.Popen(
            [*COMMAND, "sweep", server.url, *SMALL, "--budget", "60s", "--json"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(12)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 3, err
    assert '"status": "partial"' in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--itl", "soon"), "--itl 'soon' is not a time"),
        (("--budget", "-3"), "--budget '-3' is not a time"),
        (("--budget", "0"), "--budget '0' is not a time"),
        (("--link", "string"), "is no link of the catalogue"),
        (("--weights", "int4"), "name the model with --model"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    assert told in one_sentence(phasewise("sweep", "http://127.0.0.1:9", *arguments, cwd=tmp_path), 2)
    assert not (tmp_path / "phasewise-runs").exists()


def test_a_model_in_process_is_refused_with_the_way_out(tmp_path: Path) -> None:
    assert "serve it, and give its URL" in one_sentence(phasewise("sweep", f"hf:{tmp_path}", cwd=tmp_path), 2)


def test_nothing_there_is_one_sentence(tmp_path: Path) -> None:
    assert "start the server" in one_sentence(phasewise("sweep", "http://127.0.0.1:9", cwd=tmp_path), 3)
