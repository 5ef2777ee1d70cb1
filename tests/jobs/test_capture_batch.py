"""`phasewise capture --batch N`: N requests held together, by the client and in the trace, on a server of our own."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from test_capture_job import check, phase, quietly, ran, refused

from capture_server import Planted, Server
from phasewise.errors import UsageError
from phasewise.jobs.capture import Options, capture
from phasewise.jobs.power import Options as Asked
from phasewise.jobs.power import power
from phasewise.jobs.subject import Subject

DECODE = re.compile(r"execute_context_0\(0\)_generation_(\d+)\((\d+)\)")


@pytest.mark.parametrize("batch", [1, 4, pytest.param(16, marks=pytest.mark.slow)])
def test_every_recorded_step_is_one_of_the_batch(tmp_path: Path, batch: int) -> None:
    with Server(Planted(tmp_path / "traces", step=5e-3)) as server:
        done = ran(server, tmp_path, batch=batch, budget_s=3.0)
        kept = [label for label, _, _ in server.steps]
    assert done.exit_code == 0, done.run.envelope.reason
    assert kept == [f"execute_context_0(0)_generation_{batch}({batch})"] * 6
    decode = phase(done, "decode")
    assert decode.steps == {"decode": 6}
    assert (decode.batch, decode.requests) == (batch, batch)
    assert {check.name: check.detail for check in decode.checks if check.status != "passed"} == {}
    assert done.run.capture is not None
    held = done.run.capture.held
    assert held is not None
    assert (held.batch, held.trouble, held.proof) == (batch, "", "passed")
    assert decode.client == held.step
    assert decode.context is not None
    # Recorded about where it was timed: what lies between is the profiler's start.
    assert abs(decode.context - held.context) < 20
    assert sum(part.seconds.value for part in decode.parts) == pytest.approx(held.step.value if held.step else 0)


def test_the_clients_rows_follow_those_of_the_prompts(tmp_path: Path) -> None:
    import duckdb

    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path, batch=4, budget_s=2.0)
    file = str(done.folder / "requests.parquet")
    rows = duckdb.read_parquet(file).order("request").project("trial, request, phase, sent_s, ttft_s").fetchall()
    assert [row[1] for row in rows] == list(range(1, len(rows) + 1))
    sent = [row[3] for row in rows]
    assert sent == sorted(sent)
    held = [row for row in rows if row[0] == 1]
    assert {row[2] for row in held} == {"decode"}
    assert len(held) % 4 == 0
    assert len(held) >= 4
    assert done.run.observation is not None
    assert done.run.observation.requests == len(rows)
    assert done.run.envelope.zero is not None


def test_contexts_add_up_to_those_of_the_requests(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", contexts=True)) as server:
        done = ran(server, tmp_path, batch=4, phases=("decode",))
    status, detail = check(phase(done, "decode"), "tokens_as_sent")
    assert status == "passed"
    assert re.fullmatch(r"4 tokens in each decode step, which attend to [\d,]+ to [\d,]+ tokens", detail)
    assert done.run.traced is not None
    seen = [step.decode.context for step in done.run.traced.steps if step.decode]
    assert [after - before for before, after in itertools.pairwise(seen)] == [4] * 5


@pytest.mark.parametrize("lies", [-400, 2000])
def test_contexts_that_are_not_those_of_the_requests_are_told(tmp_path: Path, lies: int) -> None:
    with Server(Planted(tmp_path / "traces", contexts=True, lies=lies)) as server:
        done = ran(server, tmp_path, batch=4, phases=("decode",))
    status, detail = check(phase(done, "decode"), "tokens_as_sent")
    assert status == "failed"
    assert "where the requests sent had" in detail
    assert done.exit_code == 3


def test_a_server_that_runs_fewer_at_once(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", most=3)) as server:
        with pytest.raises(UsageError, match=r"ran 3 of 8 requests at once .* give --batch 3 or less") as caught:
            ran(server, tmp_path, batch=8, budget_s=8.0)
        assert server.calls == [], "no profiler was started"
    assert "--max-num-seqs" in str(caught.value)
    assert not list((tmp_path / "runs").glob("*"))


def test_a_cache_that_does_not_hold_the_batch(tmp_path: Path) -> None:
    """Four prompts of 100 tokens fit, and 15 tokens of each answer."""
    with Server(Planted(tmp_path / "traces", step=5e-3, cache=460)) as server:
        with pytest.raises(UsageError, match="KV cache did not hold 4 requests") as caught:
            ran(server, tmp_path, batch=4, budget_s=8.0, phases=("decode",))
        assert server.calls == []
    assert "give a smaller --batch or a shorter --prompt" in str(caught.value)


@pytest.mark.alone
@pytest.mark.slow
def test_a_slow_prefill_does_not_look_like_a_limit(tmp_path: Path) -> None:
    """The first answers end before the last of the prompts is in, unless they are longer than planned at first."""
    with Server(Planted(tmp_path / "traces", step=20e-3)) as server:
        done = ran(server, tmp_path, batch=32, budget_s=10.0, phases=("decode",))
    assert done.exit_code == 0
    assert phase(done, "decode").steps == {"decode": 6}
    assert done.run.capture is not None
    assert done.run.capture.held is not None
    assert done.run.capture.held.together == 32


def test_a_budget_in_which_the_batch_is_not_held_is_named(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", step=20e-3)) as server:
        done = ran(server, tmp_path, batch=4, budget_s=0.4, phases=("decode",))
    decode = phase(done, "decode")
    assert decode.client is None
    assert re.search(r"to hold 4 requests once takes \d+ s: give --budget \d+s or more", decode.why_null)
    assert decode.steps == {"decode": 6}, "recorded all the same"


def test_a_batch_without_decode_is_refused(tmp_path: Path) -> None:
    said = refused(Planted(tmp_path / "traces"), tmp_path, UsageError, batch=2, phases=("prefill",))
    assert "--batch 2 is of decode" in said


def test_the_mix_comes_into_the_batch(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", step=5e-3)) as server:
        done = ran(server, tmp_path, batch=3, mix=True, budget_s=3.0)
    mixed = phase(done, "mixed")
    assert check(mixed, "tokens_as_sent") == ("passed", "300 tokens of 3 prompts, 3 tokens in each decode")
    together = [step for step in mixed.marked if step.prefill]
    assert [(step.phase, step.decode.requests if step.decode else 0) for step in together] == [("mixed", 3)] * 3


LLAMA = Subject(model="llama-3-8b", on="h100-sxm")


def test_mbu_is_of_the_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 8B on an H100: 15.01 GB of weights (all but the embedding) and 131,072 bytes a token of context."""
    from phasewise.report import show

    with Server(Planted(tmp_path / "traces", step=10e-3)) as server:
        done = ran(server, tmp_path, batch=8, subject=LLAMA, budget_s=4.0)
    decode = phase(done, "decode")
    assert done.run.capture is not None
    held = done.run.capture.held
    assert held is not None
    assert held.step is not None
    (client,) = [u for u in decode.utilisations if u.yardstick == "mbu" and u.value.provenance == "measured"]
    moved = 15.01e9 + 8 * (held.context + 1) * 131_072
    assert client.value.value == pytest.approx(moved / held.step.value / 3.35e12, rel=0.005)
    (kernels,) = [u for u in decode.utilisations if u.yardstick == "mbu" and u.value.provenance == "reported"]
    assert kernels.value.value > client.value.value, "the kernels fill 78 of every 100 parts of the step"
    assert decode.floor is not None
    assert decode.floor.value == pytest.approx(moved / 3.35e12, rel=0.01)
    for form in ("text", "markdown", "html"):
        show.again(done.run, done.folder, form)
        told = " ".join(capsys.readouterr().out.split())
        assert "MBU by the client" in told, form
        assert "6 steps of 8 requests" in told
    show.again(done.run, done.folder, "json")
    tree = json.loads(capsys.readouterr().out)
    assert tree["capture"]["held"]["batch"] == 8
    assert tree["capture"]["phases"]["decode"]["utilisations"][0]["value"] > 0


def test_more_than_the_machine_can_do_is_not_believed(tmp_path: Path) -> None:
    """A step of 3 ms reads 15 GB at 5 TB/s, which no H100 does."""
    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path, batch=2, subject=LLAMA)
    assert check(phase(done, "decode"), "possible")[0] == "failed"
    assert done.exit_code == 3


def test_prompts_and_steps_fit_the_context(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces")) as server, pytest.raises(UsageError, match="or a smaller --batch"):
        capture(Options(target=server.url, batch=200, prompt=4000, out=tmp_path / "runs"), quietly)


def test_telemetry_is_not_joined_to_a_batch(tmp_path: Path) -> None:
    """A request's decode holds the prompts of the others there: it is no phase alone."""
    with Server(Planted(tmp_path / "traces")) as server:
        one = ran(server, tmp_path, batch=1, phases=("decode",))
        four = ran(server, tmp_path, batch=4, phases=("decode",))
    file = tmp_path / "smi.csv"
    file.write_text("timestamp, power.draw [W]\n" + "".join(f"2026/11/30 10:00:0{at}.000, 300 W\n" for at in range(9)))
    with pytest.raises(UsageError, match="held 4 requests at once"):
        power(Asked(inputs=(four.folder,), telemetry=(file,)), quietly)
    with pytest.raises(UsageError, match="do not overlap"):  # its requests are read, and were sent at another time
        power(Asked(inputs=(one.folder,), telemetry=(file,)), quietly)
