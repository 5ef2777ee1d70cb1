"""`phasewise capture` on a server of our own whose profiler records what it really did, and on each of its failures."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from capture_server import Planted, Server
from phasewise.engines.profilers import files
from phasewise.engines.profilers.endpoint import Endpoint
from phasewise.errors import EngineError, InputError, Interrupted, PhasewiseError, Refused, Stalled, UsageError
from phasewise.jobs.capture import Finished, Options, capture
from phasewise.record.capture import Captured
from phasewise.record.run import load


def quietly(doing: str, done: float) -> None:
    """No progress bar."""


def ran(server: Server, tmp_path: Path, **options: Any) -> Finished:
    given = {"prompt": 100, "requests": 3, "steps": 6, "budget_s": 1.0, "patience_s": 5.0, **options}
    return capture(Options(target=server.url, out=tmp_path / "runs", **given), quietly)


def refused(planted: Planted, tmp_path: Path, error: type[PhasewiseError] = EngineError, **options: Any) -> str:
    """What is said; no profile of ours is left running, and one sentence has to do."""
    with Server(planted) as server:
        with pytest.raises(error) as caught:
            ran(server, tmp_path, **options)
        assert not server.active
    assert not list((tmp_path / "runs").glob("*")), "nothing came, so nothing is kept"
    return str(caught.value)


def phase(done: Finished, name: str) -> Captured:
    assert done.run.capture is not None
    (found,) = [one for one in done.run.capture.phases if one.name == name]
    return found


def check(one: Captured, name: str) -> tuple[str, str]:
    (found,) = [check for check in one.checks if check.name == name]
    return found.status, found.detail


def test_each_phase_alone(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path)
        assert [name for name, _ in server.calls] == ["start_profile", "stop_profile"] * 2
        assert not server.active
    assert done.exit_code == 0, done.run.envelope.reason
    prefill, decode = phase(done, "prefill"), phase(done, "decode")
    assert prefill.steps == {"prefill": 3}
    assert prefill.prompt_tokens == (100, 100, 100)
    assert decode.steps == {"decode": 6}
    for one in (prefill, decode):
        assert {check.name: check.status for check in one.checks if check.status != "passed"} == {}
        (rank, front) = sorted(one.files, key=lambda file: file.role == "front end")
        assert (rank.role, front.role) == ("rank", "front end")
        assert (done.folder / rank.path).is_file()
        assert rank.place == "run"
    assert done.run.traced is not None
    assert [step.tokens for step in done.run.traced.steps] == [100] * 3 + [1] * 6
    assert done.run.observation is not None, "timed by a client before, without a profiler"
    again = load(done.folder)
    assert again.capture == done.run.capture


def test_the_parts_add_up_to_the_clients_time(tmp_path: Path) -> None:
    """A profiler that makes steps 1.5 times as long is named as what the trace is longer by."""
    with Server(Planted(tmp_path / "traces", slower=1.5, step=10e-3)) as server:
        done = ran(server, tmp_path, budget_s=4.0)
    for name in ("prefill", "decode"):
        one = phase(done, name)
        assert one.client is not None
        assert one.traced is not None
        assert one.kernels is not None
        assert sum(part.seconds.value for part in one.parts) == pytest.approx(one.client.value)
        parts = {part.name: part.seconds.value for part in one.parts}
        assert one.kernels.value == pytest.approx(parts["kernels"])
        # The operators fill 78 of every 100 parts of the server's step, and 20 lie between them.
        assert parts["gaps"] / parts["kernels"] == pytest.approx(20 / 78, rel=0.02)
        assert parts["profiler"] < 0
        assert f"the profiler made a {'prompt' if name == 'prefill' else 'step'}" in one.text


def test_the_mix_is_labelled_step_by_step(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", step=8e-3)) as server:
        done = ran(server, tmp_path, mix=True)
        kept = list(server.steps)
    mixed = phase(done, "mixed")
    assert len(mixed.marked) == len(kept)
    for step, (label, _, _) in zip(mixed.marked, kept, strict=True):
        assert step.label == label
        prompts, answers = "context_0" not in label, "generation_0" not in label
        assert step.phase == ("mixed" if prompts and answers else "prefill" if prompts else "decode")
    assert check(mixed, "tokens_as_sent")[0] == "passed"
    assert mixed.prompt_tokens == (100, 100, 100)


def test_one_phase_only(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path, phases=("decode",))
    assert done.run.capture is not None
    assert [one.name for one in done.run.capture.phases] == ["decode"]
    assert done.run.observation is not None
    assert done.run.observation.prefill is None


@pytest.mark.slow
def test_an_engine_that_takes_no_prefix_and_no_bound(tmp_path: Path) -> None:
    """An older vLLM records until it is stopped, and names its files as it likes."""
    with Server(Planted(tmp_path / "traces", prefixes=False)) as server:
        done = ran(server, tmp_path)
    decode = phase(done, "decode")
    assert set(decode.steps) == {"decode"}
    assert decode.steps["decode"] >= 6
    assert phase(done, "prefill").steps == {"prefill": 3}


def test_every_ranks_file(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", ranks=2, world=2)) as server:
        done = ran(server, tmp_path)
    for one in (phase(done, "prefill"), phase(done, "decode")):
        assert sum(file.role == "rank" for file in one.files) == 2
        assert check(one, "tokens_as_sent")[0] == "passed"
    assert phase(done, "prefill").steps == {"prefill": 6}
    assert done.run.capture is not None
    assert done.run.capture.notes == ()


def test_a_rank_without_a_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.jobs.recorder.SETTLE_S", 1.0)
    with Server(Planted(tmp_path / "traces", ranks=1, world=2)) as server:
        done = ran(server, tmp_path, patience_s=1.0, phases=("prefill",))
    status, detail = check(phase(done, "prefill"), "every_rank")
    assert status == "failed"
    assert "1 of 2 workers wrote a trace" in detail
    assert done.exit_code == 3


def test_stacks_are_warned_of(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", stacks=True)) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    assert done.run.capture is not None
    assert "torch_profiler_with_stack=false" in done.run.capture.notes[0]


def test_no_endpoints(tmp_path: Path) -> None:
    said = refused(Planted(tmp_path / "traces", endpoints=False), tmp_path, UsageError)
    assert "--profiler-config" in said
    assert "torch_profiler_dir" in said


def test_somebody_elses_profile_is_left_alone(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", busy=True)) as server:
        with pytest.raises(Refused, match="left alone") as caught:
            ran(server, tmp_path)
        assert server.named("stop_profile") == [], "it is theirs to stop"
        assert f"curl -X POST {server.url}/stop_profile" in str(caught.value)


def test_no_trace_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the server may not write into its folder: vLLM then says 200 and writes the reason into its log."""
    monkeypatch.setattr("phasewise.jobs.recorder.SETTLE_S", 1.0)
    said = refused(Planted(tmp_path / "traces", writes=False), tmp_path, patience_s=1.0)
    assert "no trace came into" in said
    assert "may write there" in said


def test_a_trace_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", cut=1.5)) as server:
        done = ran(server, tmp_path)
    assert done.exit_code == 0
    assert phase(done, "decode").steps == {"decode": 6}


def test_a_trace_that_never_gets_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.jobs.recorder.SETTLE_S", 1.0)
    said = refused(Planted(tmp_path / "traces", cut=-1), tmp_path, patience_s=1.0)
    assert "was not whole after 1 s" in said
    assert "gzip" in said


def test_a_stop_that_hangs(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", stop_s=4.0)) as server:
        with pytest.raises(Stalled, match="did not stop within 1 s") as caught:
            ran(server, tmp_path, patience_s=1.0)
        assert "/stop_profile" in str(caught.value)


def test_the_server_dies_under_the_profiler(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", dies=True)) as server, pytest.raises(EngineError) as caught:
        ran(server, tmp_path)
    assert "went away while its profiler recorded prefill" in str(caught.value)


def test_what_came_before_a_failure_is_kept(tmp_path: Path) -> None:
    """Prefill was recorded; at decode the profiler does not start."""
    with Server(Planted(tmp_path / "traces")) as server:
        inner = server.start

        def start(body: dict[str, Any]) -> int:
            return inner(body) if "prefill" in body.get("profile_prefix", "") else 500

        server.start = start  # type: ignore[method-assign]
        done = ran(server, tmp_path)
    assert done.exit_code == 3
    assert done.run.envelope.status == "partial"
    assert "HTTP 500" in done.run.envelope.reason
    assert phase(done, "prefill").steps == {"prefill": 3}
    assert phase(done, "prefill").agrees is not None


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_FREE", 1 << 62)
    said = refused(Planted(tmp_path / "traces"), tmp_path, UsageError)
    assert "There is no room for a trace" in said


def test_no_room_for_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("phasewise.jobs.recorder.shutil.copyfile", full)
    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    (rank,) = [file for file in phase(done, "prefill").files if file.role == "rank"]
    assert rank.place == "engine"
    assert Path(rank.path).parent == tmp_path / "traces"
    assert done.run.capture is not None
    assert "no room in the run's folder" in done.run.capture.notes[0]
    assert phase(done, "prefill").steps == {"prefill": 3}, "read from where it lies"


def test_a_prefix_cache_is_seen(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", cached=64)) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    one = phase(done, "prefill")
    assert check(one, "uncached") == ("failed", "64 tokens of a prompt came from the server's prefix cache")
    assert check(one, "tokens_as_sent")[0] == "failed"
    assert done.exit_code == 3


def test_prompts_share_nothing(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []
    with Server(Planted(tmp_path / "traces")) as server:
        handler: Any = server.http.RequestHandlerClass
        generate = handler._generate

        def noted(self: Any, body: dict[str, Any]) -> None:
            if isinstance(body["prompt"], list) and len(body["prompt"]) >= 100:
                seen.append(tuple(body["prompt"][:16]))
            generate(self, body)

        handler._generate = noted
        ran(server, tmp_path)
    assert len(seen) > 5
    assert all(one != other for one, other in itertools.combinations(seen, 2))


def test_requests_of_others_are_refused_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.isolate.alone.QUIET_S", 0.5)
    said = refused(Planted(tmp_path / "traces", running=2), tmp_path)
    assert "Requests of others run on this server" in said


def test_requests_of_others_are_seen_after(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", ghost=70)) as server:
        done = ran(server, tmp_path)
    prefill, decode = phase(done, "prefill"), phase(done, "decode")
    assert check(prefill, "tokens_as_sent")[0] == "failed"
    assert check(prefill, "alone") == (
        "failed",
        "the server counted 370 prompt tokens where 300 were sent: others used it",
    )
    assert check(decode, "one_phase")[0] == "failed"
    assert done.exit_code == 3


def test_without_counters_it_is_not_checked(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", counts=False)) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    assert check(phase(done, "prefill"), "alone")[0] == "not_checked"


def test_traces_on_another_machine(tmp_path: Path) -> None:
    """Nobody says where the server writes: what to copy, and how to go on."""
    with Server(Planted(tmp_path / "traces", says=False)) as server:
        done = ran(server, tmp_path)
    assert done.exit_code == 3
    assert done.run.capture is not None
    said = "\n".join(done.run.capture.proceed)
    prefix = server.named("start_profile")[0]["profile_prefix"]
    assert f"{prefix}*.pt.trace.json.gz" in said
    assert f"phasewise trace --prefill prefill --decode decode --run {shlex.quote(str(done.folder))}" in said
    assert done.run.traced is None
    prefill, decode = phase(done, "prefill"), phase(done, "decode")
    assert prefill.why_null == "the trace was not read"
    for one in (prefill, decode):
        assert one.client is not None, "timed all the same"
        assert one.slowed is not None


def test_the_folder_by_the_users_word(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", says=False)) as server:
        (tmp_path / "traces").mkdir()
        done = ran(server, tmp_path, trace_dir=tmp_path / "traces")
    assert done.exit_code == 0
    assert phase(done, "decode").steps == {"decode": 6}


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    said = refused(Planted(tmp_path / "traces"), tmp_path, InputError, trace_dir=tmp_path / "nowhere")
    assert "--trace-dir" in said


def test_a_profiler_whose_files_nobody_reads(tmp_path: Path) -> None:
    said = refused(Planted(tmp_path / "traces", profiler="proton"), tmp_path, UsageError)
    assert "Proton" in said


def test_old_files_are_not_taken_for_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "rank0.1.pt.trace.json.gz").write_bytes(b"old and broken")
    with Server(Planted(folder, prefixes=False)) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    assert done.exit_code == 0
    assert all("rank0.1.pt" not in file.path for file in phase(done, "prefill").files)


def test_engines_of_ours_have_no_profiler(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--print nsys --engine llama\.cpp"):
        capture(Options(target="gguf:model.gguf", out=tmp_path), quietly)
    with pytest.raises(UsageError, match="Name a TARGET"):
        capture(Options(target=None, out=tmp_path), quietly)


def test_every_form_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from phasewise.report import show

    with Server(Planted(tmp_path / "traces")) as server:
        done = ran(server, tmp_path, mix=True)
    for form in ("text", "markdown", "html"):
        show.again(done.run, done.folder, form)
        told = capsys.readouterr().out
        for words in ("client, no profiler", "less the profiler's cost", "tokens as sent", "trace, a step"):
            assert words in " ".join(told.split()).replace("&#39;", "'"), (form, words)
    show.again(done.run, done.folder, "json")
    tree = json.loads(capsys.readouterr().out)
    assert tree["capture"]["phases"]["prefill"]["trace_s"] > 0
    assert tree["phases"]["decode"]["steps"] == 6
    assert tree["provenance"]["capture.phases.prefill.client_s"]["provenance"] == "measured"


def test_a_context_that_is_too_short_is_said_before_anything_runs(tmp_path: Path) -> None:
    said = refused(Planted(tmp_path / "traces"), tmp_path, UsageError, prompt=4090)
    assert "takes 4,096 tokens" in said
    assert "give --prompt 4038 or less, or fewer --steps" in said


def test_ctrl_c_while_the_profiler_stops_does_not_say_that_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Endpoint.stop

    def stop(self: Endpoint) -> None:
        if self.running:
            raise KeyboardInterrupt
        inner(self)

    monkeypatch.setattr(Endpoint, "stop", stop)
    with Server(Planted(tmp_path / "traces")) as server, pytest.raises(Interrupted) as caught:
        ran(server, tmp_path, phases=("prefill",))
    assert "no profiler was left running" not in str(caught.value)
    assert f"curl -X POST {server.url}/stop_profile" in str(caught.value)


def test_files_that_do_not_bear_our_name_are_told(tmp_path: Path) -> None:
    with Server(Planted(tmp_path / "traces", prefixes=False)) as server:
        done = ran(server, tmp_path, phases=("prefill",))
    assert done.run.capture is not None
    assert "does not name its files as it was told" in done.run.capture.notes[0]
