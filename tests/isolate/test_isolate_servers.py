"""Servers and their ways: answers that come at once, text held back, times of their own, thinking; by planted times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from isolate_fake import Fake

from phasewise.engines.base import Answer, Chunk, Prompt
from phasewise.isolate.run import Isolation
from phasewise.record.observation import Check, Observation


def run(fake: Fake, **options: object) -> Observation:
    return Isolation(fake, clock=fake.clock, **options).run()  # type: ignore[arg-type]


def named(seen: Observation, name: str, phase: str | None = None) -> Check:
    (found,) = [check for check in seen.checks if check.name == name and phase in (None, check.phase)]
    return found


@dataclass
class Replaying(Fake):
    """Computes the whole answer, then plays it back at ``pace`` seconds a token."""

    pace: float = 2e-3

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        answer = super().ask(prompt, max_tokens)
        done = answer.last_at
        chunks = tuple(
            msgspec.structs.replace(chunk, at=done + i * self.pace, read=i) for i, chunk in enumerate(answer.chunks)
        )
        self.now = chunks[-1].at + 1e-4
        return msgspec.structs.replace(
            answer, chunks=chunks, first_at=done, last_at=chunks[-1].at, ended_at=self.now, headers_at=done
        )


AT_ONCE: dict[str, Callable[[], Fake]] = {
    "one body": lambda: Fake(whole=True, burst=10**6),
    "one burst": lambda: Fake(burst=10**6),
    "one burst, nothing counted in it": lambda: Fake(burst=10**6, ids=False),
    "replayed evenly": lambda: Replaying(),
    "replayed slower than made": lambda: Replaying(pace=12e-3, step=8e-3),
}


@pytest.mark.parametrize("kind", AT_ONCE)
def test_where_nothing_streams_decode_is_the_difference_of_two_lengths(kind: str) -> None:
    fake = AT_ONCE[kind]()
    seen = run(fake)
    assert seen.decode is not None
    truth = fake.tpot(seen.decode.tpot_context)
    assert seen.decode.tpot.value == pytest.approx(truth, rel=0.01)
    assert seen.decode.tpot.low is not None
    assert seen.decode.tpot.high is not None
    assert seen.decode.tpot.low <= truth <= seen.decode.tpot.high
    assert "difference of answers of" in seen.decode.tpot.source
    check = named(seen, "streamed")
    assert (check.status, check.voids) == ("failed", False)
    assert "difference of two answer lengths" in check.detail


def test_the_figure_that_the_replay_would_give_is_another() -> None:
    fake = Replaying(pace=2e-3, step=8e-3)
    seen = run(fake)
    assert seen.decode is not None
    assert seen.decode.tpot.value > 3 * fake.pace


def test_without_a_prefill_profile_the_first_answer_is_what_the_long_one_is_held_against() -> None:
    fake = Fake(burst=10**6)
    seen = run(fake, phases=("decode",))
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(fake.tpot(seen.decode.tpot_context), rel=0.01)


@pytest.mark.parametrize(
    "clean",
    [
        {"cold": 3.0},
        {"very_cold": 10.0},
        {"burst": 8},
        {"chunk_tokens": 5},
        {"held_up": lambda number: 6.0 if number % 5 == 0 else 1.0},
        {"overhead": 2.0, "step": 1e-3},
    ],
)
def test_a_stream_is_not_taken_for_one_piece(clean: dict[str, object]) -> None:
    seen = run(Fake(**clean))  # type: ignore[arg-type]
    assert seen.decode is not None
    assert "difference" not in seen.decode.tpot.source


# Text held back


@dataclass
class Parsing(Fake):
    """Holds ``held`` tokens from number ``start`` on back, then sends them as one chunk, as a tool parser does."""

    start: int = 30
    held: int = 25

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        answer = super().ask(prompt, max_tokens)
        chunks, end = answer.chunks, min(len(answer.chunks), self.start + self.held) - 1
        if len(chunks) <= self.start:
            return answer
        burst = msgspec.structs.replace(chunks[end], tokens=end - self.start + 1 if self.ids else None)
        return msgspec.structs.replace(answer, chunks=(*chunks[: self.start], burst, *chunks[end + 1 :]))


@pytest.mark.parametrize("ids", [True, False])
def test_text_that_a_parser_holds_back_is_named(ids: bool) -> None:
    seen = run(Parsing(ids=ids))
    check = named(seen, "held_back")
    assert check.status == "failed"
    assert not check.voids
    assert "parser of tool calls or reasoning" in check.detail
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(8e-3, rel=0.01), "by the usage count, over the whole answer"


def test_a_pause_of_the_engine_is_no_text_held_back() -> None:
    class Pausing(Fake):
        def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
            answer = super().ask(prompt, max_tokens)
            late = tuple(
                msgspec.structs.replace(chunk, at=chunk.at + (0.3 if i >= 20 else 0.0))
                for i, chunk in enumerate(answer.chunks)
            )
            self.now += 0.3
            return msgspec.structs.replace(answer, chunks=late, last_at=late[-1].at, ended_at=self.now)

    assert named(run(Pausing()), "held_back").status == "passed"


# The server's own times


@dataclass
class Telling(Fake):
    """Tells llama.cpp's timings: ``outside`` gives the part of TTFT that is not in its prefill, by prompt length."""

    outside: Callable[[int], float] = lambda tokens: 1e-3
    stretch: float = 1.0
    more: dict[str, float] = field(default_factory=dict)

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        answer = super().ask(prompt, max_tokens)
        said = {
            "prompt_n": float(prompt.tokens),
            "prompt_ms": 1e3 * (answer.first_at - answer.sent_at - self.outside(prompt.tokens)),
            "predicted_n": float(max_tokens),
            "predicted_ms": 1e3 * (answer.last_at - answer.first_at) / self.stretch,
        }
        return msgspec.structs.replace(answer, reported=said | self.more)


def test_the_servers_own_times_stand_beside_ours() -> None:
    seen = run(Telling())
    assert seen.timings is not None
    assert seen.timings.who == "llama.cpp's timings"
    for row in seen.timings.rows:
        assert row.ours.provenance == "measured"
        assert row.theirs.provenance == "reported"
        if row.phase == "prefill":
            assert row.rest.value == pytest.approx(1e-3, abs=1e-6)
        else:
            assert row.theirs.value == pytest.approx(row.ours.value, rel=1e-6)
    assert {row.phase for row in seen.timings.rows} == {"prefill", "decode"}
    assert named(seen, "timings_agree", "prefill").status == "passed"
    assert named(seen, "timings_agree", "decode").status == "passed"


PREFILL: list[tuple[Callable[[int], float], str, str]] = [
    (lambda tokens: 1e-3, "passed", "apart"),
    (lambda tokens: 30e-3, "passed", "a request are outside its prefill"),
    (lambda tokens: 1e-3 + 20e-6 * tokens, "failed", "for each token more"),
    (lambda tokens: -0.5 - 1e-3 * tokens, "failed", "less than the prefill in it"),
]


@pytest.mark.parametrize(("outside", "status", "words"), PREFILL)
def test_what_ttft_holds_beside_the_prefill_is_explained(
    outside: Callable[[int], float], status: str, words: str
) -> None:
    check = named(run(Telling(outside=outside)), "timings_agree", "prefill")
    assert check.status == status
    assert words in check.detail
    assert not check.voids


@pytest.mark.parametrize(
    ("stretch", "status", "words"),
    [
        (1.0, "passed", "0.0% apart"),
        (1.02, "passed", "2.0% apart"),
        (1.1, "failed", "late"),
        (0.8, "failed", "held back"),
    ],
)
def test_a_step_is_a_step_whoever_times_it(stretch: float, status: str, words: str) -> None:
    check = named(run(Telling(stretch=stretch)), "timings_agree", "decode")
    assert check.status == status
    assert words in check.detail


def test_a_server_that_tells_no_times_is_not_checked() -> None:
    seen = run(Fake())
    assert seen.timings is None
    assert named(seen, "timings_agree").status == "not_checked"


def test_queue_and_load_are_told_where_the_server_tells_them() -> None:
    class Ollama(Fake):
        def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
            answer = super().ask(prompt, max_tokens)
            prefill = 1e9 * (answer.ttft - 0.04)
            decode = 1e9 * (answer.last_at - answer.first_at)
            said = {"load_duration": 3e7, "prompt_eval_duration": prefill, "eval_duration": decode}
            return msgspec.structs.replace(answer, reported=said)

    seen = run(Ollama(overhead=50e-3))
    assert seen.timings is not None
    assert seen.timings.load is not None
    assert seen.timings.load.value == pytest.approx(0.03)
    assert seen.timings.queue is None


# Thinking


@dataclass
class Thinking(Fake):
    """The first ``thoughts`` tokens of an answer are reasoning."""

    thoughts: int = 20

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        answer = super().ask(prompt, max_tokens)
        told: tuple[Chunk, ...] = tuple(
            msgspec.structs.replace(chunk, thinking=i < self.thoughts) for i, chunk in enumerate(answer.chunks)
        )
        return msgspec.structs.replace(answer, chunks=told)


def test_first_thought_and_first_word_of_the_answer_are_apart() -> None:
    fake = Thinking()
    seen = run(fake)
    assert seen.reasoning is not None
    assert seen.reasoning.first_answer is not None
    apart = seen.reasoning.first_answer.value - seen.reasoning.first_thinking.value
    assert apart == pytest.approx(20 * 8e-3, rel=0.05)
    assert seen.reasoning.thoughts == seen.reasoning.answered > 0


def test_thoughts_without_end_have_no_answer() -> None:
    seen = run(Thinking(thoughts=10**6))
    assert seen.reasoning is not None
    assert seen.reasoning.first_answer is None
    assert seen.reasoning.answered == 0


def test_without_thoughts_nothing_is_said_of_them() -> None:
    assert run(Fake()).reasoning is None
