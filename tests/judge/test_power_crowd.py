"""Power of many requests at once: which phase ran when, and joules per phase and batch, against hand arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from power_by_hand import series, steps

from phasewise.judge.power.crowd import NOTHING_COUNTED, Came, Flight, came, loaded, swept, whole
from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.windows import Span
from phasewise.record.power import Power

STEP = 0.02


def prompt(sent: float, first: float, tokens: int = 1000) -> Flight:
    return Flight(sent, first, first, first, 1, tokens, tokens, 1)


def answer(sent: float, first: float, tokens: int, step: float = STEP, before: int = 32) -> Flight:
    last = first + (tokens - 1) * step
    return Flight(sent, last, first, last, tokens, before, before, tokens)


def events(flights: Sequence[Flight], step: float = STEP) -> Came:
    """A token at the first moment and one every step from there on."""
    every = [
        (number, one.first + i * step)
        for number, one in enumerate(flights)
        if one.first is not None
        for i in range(one.answered or 0)
    ]
    return came(np.array([n for n, _ in every]), np.array([at for _, at in every]), np.ones(len(every)))


# A sweep, and what its GPU drew: idle 80 W, prefill 640 W, decode 200 W alone and 320 W at batch 8, the mix 450 W.
# 3 s idle; a first prompt; ten prompts one after another, then four at once: 1.4 s, 14,000 tokens.
FIRST = [prompt(103.0, 103.05)]
ALONE = [prompt(103.1 + 0.1 * i, 103.2 + 0.1 * i) for i in range(10)]
AT_ONCE = [prompt(104.1, 104.2 + 0.1 * i) for i in range(4)]
# Batch 1: 1 s, 50 tokens. Batch 8: prompts one after another, then 2 s in which each gets 100 tokens. Batch 16: 0.16 s.
ONE = [answer(105.0, 105.1, 51)]
EIGHT = [answer(107.0, 107.0 + 0.02 * (i + 1), 101 + (7 - i)) for i in range(8)]
SIXTEEN = [answer(110.0, 110.1, 9) for _ in range(16)]
# The mix: two decodes from 111.1 to 113.1, prompts among them from 111.5 to 112.4 with pauses of 50 ms.
DECODES = [answer(111.0, 111.1, 101) for _ in range(2)]
PROMPTS = [prompt(111.5 + 0.3 * i, 111.75 + 0.3 * i, 2500) for i in range(3)]
SWEEP = [*FIRST, *ALONE, *AT_ONCE, *ONE, *EIGHT, *SIXTEEN, *DECODES, *PROMPTS]
CELLS = [(1, 32), (8, 32), (16, 32), (8, 1024)]
LEVELS = (
    (0, 80), (3, 640), (4.5, 80), (5, 200), (6.1, 80), (7, 320), (9.16, 80), (10, 320), (10.26, 80), (11, 210),
    (11.5, 450), (12.35, 210), (13.1, 80),
)  # fmt: skip
UTILISATION = steps(*((at, float(watts > 80)) for at, watts in LEVELS))


def energy(t: float) -> float:
    """Integral of the watts by hand."""
    ends = [*(at for at, _ in LEVELS[1:]), 99]
    return sum(watts * max(0.0, min(t, end) - at) for (at, watts), end in zip(LEVELS, ends, strict=True))


def planted(**more: Any) -> Any:
    given: dict[str, Any] = {
        "seconds": 17,
        "every": 0.01,
        "watts": steps(*LEVELS),
        "joules": energy,
        "utilisation": UTILISATION,
        "limit_w": 700,
        "sm_hz": 1.98e9,
        "hot": 0.0,
        "slowed": 0.0,
        "capped": 0.0,
    } | more
    return series(**given)


def joined(flights: Sequence[Flight] = SWEEP, cells: Sequence[tuple[int, int]] = CELLS) -> Joined:
    return Joined(
        spans=tuple(swept(flights, events(flights), cells)),
        busy=tuple((one.sent, one.ended) for one in flights),
        boundary="planted",
        expected=("prefill", "decode", "mixed"),
    )


def judged(*found: Any, of: Joined | None = None) -> Power:
    return judge(found or (planted(),), of or joined(), provenance="measured", how="planted.")


def value(quantity: Any) -> float:
    assert quantity is not None
    return float(quantity.value)


def test_each_phase_of_a_sweep_draws_what_was_planted() -> None:
    power = judged()
    prefill, decode, mixed = (power.phases[phase] for phase in ("prefill", "decode", "mixed"))
    # 103.1 to 104.5 without a pause: 640 W over 14 prompts of 1,000 tokens.
    assert (prefill.requests, prefill.tokens) == (14, 14_000)
    assert value(prefill.joules) == pytest.approx(640 * 1.4, rel=1e-3)
    assert value(prefill.per_token) == pytest.approx(640 * 1.4 / 14_000, rel=1e-3)
    # 1 s at 200 W for 50 tokens, 2 s at 320 W for 8 × 100; the first token of each was made before.
    assert (decode.requests, decode.tokens) == (9, 850)
    assert value(decode.joules) == pytest.approx(200 + 640, rel=1e-3)
    assert value(decode.per_token) == pytest.approx(840 / 850, rel=1e-3)
    # 111.5 to 112.35: three prompts of 2,500 tokens and their first tokens, and two decodes for 42.5 steps.
    assert (mixed.requests, mixed.tokens) == (3, 7500 + 3 + 85)
    assert value(mixed.joules) == pytest.approx(450 * 0.85, rel=1e-3)
    assert mixed.busy == pytest.approx(0.75 / 0.85)
    assert value(prefill.share) == pytest.approx(640 / 700, rel=1e-3)
    assert value(decode.net) == pytest.approx(840 - 80 * 3, rel=1e-2)
    assert {check.name for check in power.checks if check.phase == "decode"} >= {"throttling", "clock_drift"}
    # 5.25 s of windows in 0.05 + 1.4 + 1.1 + 2.16 + 0.26 + 2.1 s of requests.
    assert power.notes == ("The windows of prefill and decode and mixed hold 74.3% of the time in which requests ran.",)


def test_joules_per_output_token_fall_as_the_batch_grows_and_a_short_one_is_not_judged() -> None:
    power = judged()
    assert [(one.batch, one.prompt_tokens) for one in power.batches] == [(1, 32), (8, 32), (16, 32)]
    one, eight, sixteen = (batch.figures for batch in power.batches)
    assert one is not None
    assert eight is not None
    assert value(one.watts) == pytest.approx(200, rel=1e-3)
    assert value(one.per_token) == pytest.approx(200 / 50, rel=1e-3)
    assert value(eight.watts) == pytest.approx(320, rel=1e-3)
    assert value(eight.per_token) == pytest.approx(640 / 800, rel=1e-3)
    assert sixteen is None
    assert power.batches[2].why_null == "1 of 1 windows are not judged: 1 shorter than 0.2 s."
    assert "1 of 3 windows are not judged" in power.phases["decode"].left_out


def test_a_batch_that_was_not_held_is_of_no_phase() -> None:
    power = judged(of=joined(cells=[(1, 32), (8, 1024)]))  # eight requests after 32 tokens are not those after 1,024
    assert [one.batch for one in power.batches] == [1]
    assert power.phases["decode"].tokens == 50


def test_a_group_of_which_a_request_failed_is_left_out() -> None:
    broken = [one._replace(failed=True) if one is EIGHT[3] else one for one in SWEEP]
    assert [one.batch for one in judged(of=joined(broken)).batches] == [1, 16]
    unanswered = [*SWEEP, Flight(105.2, 105.9, None, None, 50, 32, 32, 0, failed=True)]
    assert [one.batch for one in judged(of=joined(unanswered)).batches] == [8, 16]


def test_what_did_not_run_by_itself_is_said_to_be_missing() -> None:
    power = judged(of=joined([*FIRST, *ALONE, *ONE]))
    assert power.missing == {"mixed": "it was not seen by itself."}
    assert not judged(of=joined([*FIRST, *ALONE, *EIGHT], [(1, 32)])).batches


def test_the_pauses_between_prompts_are_not_taken_for_prefill_s_own_power() -> None:
    """Prompts of 0.1 s with 0.08 s between them, as of requests that workers are handed one by one."""
    apart = [prompt(103.1 + 0.18 * i, 103.2 + 0.18 * i) for i in range(10)]

    def level(t: float) -> float:
        since = (t - 3.1) % 0.18
        return 640.0 if 3.1 <= t < 4.9 and since < 0.1 - 1e-9 else 80.0

    found = planted(watts=level, joules=None)
    figures = judged(found, of=joined([*FIRST, *apart])).phases["prefill"]
    assert figures.windows == 2  # each of a second and more; the pause between them is of neither
    assert figures.busy == pytest.approx(1.0 / (10 * 0.1 + 8 * 0.08), rel=1e-3)
    assert "it ran in 61.0% of that time" in figures.text
    assert "matrix units" not in figures.text
    # What the machine draws when idle taken off, the pauses cost nothing.
    assert value(figures.net_per_token) == pytest.approx((640 - 80) * 0.1 / 1000, rel=0.05)


def test_few_readings_of_watts_that_jump_do_not_discredit_the_counter() -> None:
    """640 and 80 W in turns, read every 50 ms: of 1 s the mean of 20 readings is known within a fifth or so."""
    turns = [prompt(103.1 + 0.1 * i, 103.2 + 0.1 * i) for i in range(10)]

    def level(t: float) -> float:
        return 640.0 if 3.1 <= t < 4.1 and (t - 3.1) % 0.1 < 0.06 else 80.0

    def drew(t: float) -> float:
        since = min(max(0.0, t - 3.1), 1.0)
        turn, rest = divmod(since + 1e-9, 0.1)
        return 80 * t + 560 * (0.06 * turn + min(rest, 0.06))

    power = judged(planted(every=0.05, watts=level, joules=drew), of=joined([*FIRST, *turns]))
    prefill = power.phases["prefill"]
    assert prefill.differ is not None
    assert abs(prefill.differ) > 0.1
    assert not prefill.doubted
    assert value(prefill.joules) == pytest.approx(80 + 560 * 0.6, rel=0.06)
    assert next(check.status for check in power.checks if check.name == "energy_counter") == "passed"
    steady = judged(planted(joules=lambda t: 1.2 * energy(t)))  # as far apart, and nothing that would explain it
    assert steady.phases["decode"].doubted
    assert next(check.status for check in steady.checks if check.name == "energy_counter") == "failed"


def test_without_counts_there_are_watts_and_no_joules_per_token() -> None:
    spans = tuple(swept(SWEEP, NOTHING_COUNTED, CELLS))
    power = judged(of=Joined(spans=spans, busy=((103.0, 113.1),), boundary="planted"))
    assert power.phases["decode"].per_token is None
    assert value(power.phases["decode"].watts) == pytest.approx(280, rel=1e-2)
    assert value(power.phases["prefill"].per_token) == pytest.approx(0.064, rel=1e-3)  # sent, so known


# --- what telemetry can do wrong -----------------------------------------------------------------------------------


def without(found: Any, begin: float, end: float) -> Any:
    kept = (found.time < begin) | (found.time > end)
    return found._replace(time=found.time[kept], **{name: getattr(found, name)[kept] for name in found._fields[2:]})


def test_a_gap_in_the_readings_costs_the_window_that_it_lies_in() -> None:
    power = judged(without(planted(joules=None), 108.0, 108.5))
    assert power.batches[0].figures is not None
    assert power.batches[1].figures is None
    assert "without readings throughout" in power.batches[1].why_null


def test_a_counter_set_back_within_a_batch_leaves_it_its_readings() -> None:
    power = judged(planted(joules=lambda t: energy(t) - (energy(8) if t >= 8 else 0.0)))
    one, eight, _ = (batch.figures for batch in power.batches)
    assert one is not None
    assert eight is not None
    assert one.counted is not None
    assert eight.counted is None
    assert value(eight.joules) == pytest.approx(640, rel=0.01)
    assert "set back" in next(check.detail for check in power.checks if check.name == "energy_counter")


def test_of_a_gpu_that_is_lost_midway_what_came_before_counts() -> None:
    def until(at: float) -> Any:
        found = planted(index=1)
        return without(found, 100 + at, 200)

    power = judged(planted(), until(6.5))
    assert len(power.devices) == 2
    one, eight, _ = (batch.figures for batch in power.batches)
    assert one is not None
    assert value(one.watts) == pytest.approx(400, rel=1e-3)  # both
    assert eight is None
    assert "without readings throughout" in power.batches[1].why_null
    assert "mixed" in power.missing


def test_heat_in_one_phase_of_a_sweep_voids_that_phase() -> None:
    power = judged(planted(hot=steps((0, 0), (7, 1), (9.2, 0))))
    failed = [(check.name, check.phase, check.voids) for check in power.checks if check.status == "failed"]
    assert failed == [("throttling", "decode", True)]


# --- a load --------------------------------------------------------------------------------------------------------


def of_load(flights: Sequence[Flight], fewest: int = 3) -> Joined:
    return Joined(
        spans=(*whole(flights), *loaded(flights, events(flights))),
        busy=tuple((one.sent, one.ended) for one in flights),
        boundary="planted",
        expected=("decode", "mixed"),
        fewest=fewest,
    )


# Five times: two prompts of 500 tokens together for 0.3 s, then 0.7 s of decode (36 tokens each, the first with the
# prompt).
USERS = [answer(103.0 + 1.2 * i, 103.3 + 1.2 * i, 36, before=500) for i in range(5) for _ in range(2)]


def loaded_watts(t: float) -> float:
    since = (t - 3.0) % 1.2
    return 80.0 if t < 3 or t >= 3 + 5 * 1.2 or since >= 1.0 - 1e-9 else 600.0 if since < 0.3 - 1e-9 else 250.0


def test_a_load_tells_the_watts_of_decodes_alone_and_of_the_rest() -> None:
    readings = planted(watts=loaded_watts, joules=None, utilisation=lambda t: float(loaded_watts(t) > 80))
    power = judged(readings, of=of_load(USERS))
    decode, mixed, every = power.phases["decode"], power.phases["mixed"], power.phases["all"]
    assert (decode.windows, decode.tokens) == (5, 5 * 2 * 35)
    assert value(decode.watts) == pytest.approx(250, rel=0.02)
    assert value(decode.per_token) == pytest.approx(250 * 0.7 / 70, rel=0.02)
    assert (mixed.windows, mixed.tokens) == (5, 5 * 2 * 501)
    assert value(mixed.watts) == pytest.approx(600, rel=0.02)
    assert every.tokens == 10 * (500 + 36)
    assert value(every.joules) == pytest.approx(5 * (600 * 0.3 + 250 * 0.7), rel=0.02)
    assert {check.phase for check in power.checks} == {"run"}  # once, of all
    assert {band.phase for band in power.bands} == {"decode", "mixed"}


def test_too_few_windows_of_a_load_are_said_to_be_too_few() -> None:
    readings = planted(watts=loaded_watts, joules=None, utilisation=lambda t: float(loaded_watts(t) > 80))
    power = judged(readings, of=of_load(USERS[:4]))
    assert set(power.phases) == {"all"}
    assert power.missing["decode"].startswith("2 of the 3 windows that it takes.")


def test_a_load_whose_prompts_never_pause_has_no_decode_alone() -> None:
    flights = [answer(103.0 + 0.2 * i, 103.25 + 0.2 * i, 51) for i in range(20)]
    spans = loaded(flights, events(flights))
    decode = [span for span in spans if span.phase == "decode"]
    assert [(span.begin, span.end) for span in decode] == [pytest.approx((107.05, 108.05))]  # after the last
    mixed = [span for span in spans if span.phase == "mixed"]
    assert sum(span.end - span.begin for span in mixed) == pytest.approx(4.05)
    assert sum(span.busy_s or 0.0 for span in mixed) == pytest.approx(4.05)


def test_a_request_that_never_answers_is_in_the_air_to_its_end() -> None:
    flights = [answer(100.0, 100.1, 101), Flight(100.5, 101.5, None, None, 10, 50, 50, 0, failed=True)]
    spans = loaded(flights, events(flights))
    assert [(s.begin, s.end) for s in spans if s.phase == "decode"] == [
        pytest.approx((100.1, 100.5)),
        pytest.approx((101.5, 102.1)),
    ]


def test_nothing_sent_is_nothing() -> None:
    assert swept([], NOTHING_COUNTED, CELLS) == []
    assert loaded([], NOTHING_COUNTED) == []


# --- when tokens were made -----------------------------------------------------------------------------------------


def test_a_token_is_made_in_the_step_before_it_came() -> None:
    """A window may end within a step, whose tokens reach the client one after another."""
    at = [float(i) for i in range(11)] + [i + 0.01 for i in range(11)]
    found = came(np.repeat([1, 0], 11), np.array(at), np.ones(22))
    assert found.between(0.01, 10.0) == 20
    assert found.between(2.0, 2.5) == 1
    assert found.between(-1.0, 20.0) == 22


def test_a_pause_for_a_prompt_makes_no_token_and_a_first_one_is_the_prefill_s() -> None:
    """Steps of 1 s, and one that came 6 s after the one before: 5 s of them were a prompt's."""
    at = np.array([0.0, 1.0, 2.0, 8.0, 9.0, 10.0])
    found = came(np.zeros(6, np.int64), at, np.ones(6))
    assert found.between(2.0, 7.0) == 0
    assert found.between(7.0, 8.0) == 1
    assert found.between(-5.0, -0.1) == 0
    assert found.between(-0.1, 0.0) == 1


def test_tokens_that_came_in_one_read_were_made_in_the_same_time() -> None:
    at = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    found = came(np.zeros(7, np.int64), at, np.ones(7))
    assert found.between(-0.1, 1.0) == 4
    assert found.between(0.0, 1.0) == 3
    assert found.between(1.0, 1.6) == round(3 * 0.6)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 20.0)), min_size=1, max_size=60), st.floats(0, 20))
def test_what_is_made_before_a_moment_and_after_it_is_everything(drawn: list[tuple[int, float]], edge: float) -> None:
    told = sorted(drawn, key=lambda one: one[1])
    request, at = np.array([number for number, _ in told]), np.array([moment for _, moment in told])
    found = came(request, at, np.full(len(told), 100.0))
    parts = (found.between(-30.0, edge) or 0) + (found.between(edge, 50.0) or 0)
    assert abs(parts - 100 * len(told)) <= 1


FLIGHTS = st.lists(
    st.tuples(
        st.floats(0, 12), st.floats(0.01, 1.5), st.integers(1, 40), st.floats(0.005, 0.1), st.integers(0, 3000),
        st.booleans(),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


def flown(drawn: Sequence[tuple[float, float, int, float, int, bool]]) -> tuple[list[Flight], Came]:
    flights: list[Flight] = []
    every: list[tuple[int, float]] = []
    for number, (sent, ttft, tokens, step, before, failed) in enumerate(drawn):
        first = 103 + sent + ttft
        last = first + (tokens - 1) * step
        if failed:
            flights.append(Flight(103 + sent, first, None, None, tokens, before, before, 0, failed=True))
        else:
            flights.append(Flight(103 + sent, last, first, last, tokens, before, before, tokens))
            every += [(number, first + i * step) for i in range(tokens)]
    at, request = np.array([moment for _, moment in every]), np.array([n for n, _ in every], np.int64)
    return flights, came(request, at, np.ones(len(every)))


def apart(spans: Sequence[Span]) -> bool:
    """Whether no two spans of different phases, or two of one that is not prefill, share time."""
    told = sorted(spans, key=lambda span: span.begin)
    return all(b.begin >= a.end - 1e-9 or a.phase == b.phase == "prefill" for a, b in itertools.combinations(told, 2))


@given(FLIGHTS, st.booleans())
def test_phases_share_no_time_and_no_token(drawn: Any, as_sweep: bool) -> None:
    flights, tokens = flown(drawn)
    cells = [(batch, length) for batch in range(1, 15) for length in (1, 30, 300, 3000)]
    spans = swept(flights, tokens, cells) if as_sweep else loaded(flights, tokens)
    assert apart(spans)
    begin, end = min(one.sent for one in flights), max(one.ended for one in flights)
    assert all(begin <= span.begin < span.end <= end for span in spans)
    assert all(0 <= (span.busy_s or 0.0) <= span.end - span.begin + 1e-9 for span in spans)
    made = sum(one.computed for one in flights) + sum(one.answered or 0 for one in flights)
    assert sum(span.tokens or 0 for span in spans) <= made + len(spans) / 2  # each is a whole number


@given(FLIGHTS, st.lists(st.floats(80, 700), min_size=17, max_size=17), st.booleans(), st.booleans())
def test_the_energies_of_the_windows_never_exceed_the_total(
    drawn: Any, watts: list[float], as_sweep: bool, by_counter: bool
) -> None:
    flights, tokens = flown(drawn)
    cells = [(batch, length) for batch in range(1, 15) for length in (1, 30, 300, 3000)]
    spans = swept(flights, tokens, cells) if as_sweep else loaded(flights, tokens)
    if not spans:
        return
    levels = tuple((float(i), w) for i, w in enumerate(watts))
    ends = [*(at for at, _ in levels[1:]), 99.0]

    def drew(t: float) -> float:
        return sum(w * max(0.0, min(t, end) - at) for (at, w), end in zip(levels, ends, strict=True))

    one = series(seconds=24, every=0.01, watts=steps(*levels), joules=drew if by_counter else None, utilisation=1.0)
    of = Joined(spans=tuple(spans), busy=tuple((f.sent, f.ended) for f in flights), boundary="planted")
    power = judge([one], of, provenance="measured", how="planted.", every=True)
    begin, end = min(f.sent for f in flights), max(f.ended for f in flights)
    total = drew(end - 100) - drew(begin - 100)
    parts = [figures for phase, figures in power.phases.items()]
    # The readings at the edges of a window are up to 10 ms off: at most 620 W there.
    edges = sum(figures.windows for figures in parts) * 2 * 0.01 * 620
    assert sum(figures.seconds for figures in parts) <= end - begin + 1e-6
    assert sum(figures.joules.value for figures in parts) <= total + edges
    by_batch = sum(one.figures.joules.value for one in power.batches if one.figures)
    if "decode" in power.phases and as_sweep:
        assert by_batch == pytest.approx(power.phases["decode"].joules.value)
