"""`phasewise simulate` as a user runs it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from simulated_wire import Wire

from phasewise.engines.simulated import Plan
from phasewise.engines.simulated.presets import PRESETS

pytestmark = pytest.mark.alone

COMMAND = (sys.executable, "-c", "from phasewise.cli import main; main()", "simulate")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_every_planted_number_has_a_flag_with_help() -> None:
    shown = run("--help").stdout
    for field in msgspec.structs.fields(Plan):
        word = field.name.removesuffix("_s").replace("_", "-")
        assert f"--no-{word}" in shown if field.default is True else f"--{word}" in shown


def test_it_prints_what_is_planted_and_the_command_to_profile_it() -> None:
    done = run("--like", "h100-llama-3-8b", "--for", "0.2s")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"phasewise profile http://127\.0\.0\.1:\d+ --model llama-3-8b --on h100-sxm\n", done.stdout)
    assert "8.00 ms + 20.2 µs per token" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 130


def test_flags_reach_the_plan() -> None:
    done = run(
        "--like", "h100-llama-3-8b-int4", "--for", "100ms", "--json", "--no-usage", "--prefix-cache",
        "--other-load", "2.5,100,20", "--max-queue", "4", "--prefill-overhead", "0",
        "--decode-per-context-token", "3ns", "--clock-drift", "-0.5", "--partial-utf8", "withheld",
    )  # fmt: skip
    plan = json.loads(done.stdout)["plan"]
    assert plan["usage"] is False
    assert plan["prefix_cache"] is True
    assert plan["other_load"] == {"rate": 2.5, "prompt": 100, "answer": 20}
    assert (plan["max_queue"], plan["prefill_overhead_s"], plan["clock_drift"]) == (4, 0.0, -0.5)
    assert plan["decode_per_context_token_s"] == pytest.approx(3e-9)
    assert plan["partial_utf8"] == "withheld"
    assert plan["prefill_per_token_s"] == PRESETS["h100-llama-3-8b-int4"].plan.prefill_per_token_s


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--like", "h200"), "h100-llama-3-8b"),
        (("--max-batch", "0"), "--max-batch 0"),
        (("--max-batch", "many"), "--max-batch many"),
        (("--other-load", "2,3"), "RATE,PROMPT,ANSWER"),
        (("--other-load", "0,3,3"), "--other-load 0,3,3"),
        (("--other-load", "1,2,3,4"), "RATE,PROMPT,ANSWER"),
        (("--jitter", "nan"), "--jitter nan"),
        (("--clock-drift", "inf"), "--clock-drift inf"),
        (("--prefill-overhead", "5"), "unit"),
        (("--endpoints", "none"), "both|completions|chat"),
        (("--status", "200"), "--status 200"),
        (("--port", "70000"), "--port"),
        (("--log", "/nonexistent/truth.jsonl"), "/nonexistent/truth.jsonl"),
        (("--host", "192.0.2.1", "--for", "1s"), "192.0.2.1"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped_and_keeps_the_key_to_itself(signum: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    child = subprocess.Popen(
        [*COMMAND, "--json", "--api-key", "s3cret", "--log", str(log), "--decode-overhead", "1ms"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    told = json.loads(line)
    assert told["pid"] == child.pid
    with Wire(told["url"]) as wire:
        assert wire.complete(5, 5).status == 401
        body = {"prompt": "a b", "max_tokens": 5}
        assert wire.post("/v1/completions", body, authorization="Bearer s3cret").status == 200
        child.send_signal(signum)
        began = time.monotonic()
        rest = child.stdout.read()
        assert child.wait(10) == 0
        assert time.monotonic() - began < 5
    child.stdout.close()
    assert "s3cret" not in line + rest + log.read_text()


def test_a_taken_port_is_said() -> None:
    child = subprocess.Popen([*COMMAND, "--json"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        port = json.loads(child.stdout.readline())["url"].rsplit(":", 1)[1]
        done = run("--port", port, "--for", "1s")
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()
    assert done.returncode == 2
    assert port in done.stderr


@pytest.mark.parametrize("name", PRESETS)
def test_presets_make_the_figures_they_stand_for(name: str) -> None:
    """Llama 3 8B on an H100 at 2,000 tokens: prefill about 50 ms, a decode step 5 to 6 ms (the reference case)."""
    plan = PRESETS[name].plan
    prefill = plan.prefill_overhead_s + plan.prefill_per_token_s * 2000 + plan.prefill_per_token2_s * 2000**2
    decode = plan.decode_overhead_s + plan.decode_per_request_s + plan.decode_per_context_token_s * 2000
    assert plan.prefill_per_token_s * 989e12 * 0.7 == pytest.approx(2 * 6.98e9, rel=0.06)
    assert plan.prefill_per_token2_s * 989e12 * 0.7 == pytest.approx(2 * 32 * 4096, rel=0.01)
    assert plan.decode_per_context_token_s * 3.35e12 * 0.85 == pytest.approx(131_072, rel=0.01)
    expected = {"h100-llama-3-8b": (0.050, 5.7e-3), "h100-llama-3-8b-int4": (0.052, 2.4e-3)}
    assert (prefill, decode) == pytest.approx(expected.get(name, (0.057, 12.4e-3)), rel=0.02)
