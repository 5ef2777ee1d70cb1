"""A trace on the terminal: the answer first, prefill beside decode, nothing unmeasured as a zero, the recap last."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest
from example_parts import change
from example_trace import (
    ABSENT,
    DECODE,
    EVERY,
    PREFILL,
    alarmed,
    counters,
    eager,
    hostile,
    nothing,
    on_cpu,
    only_decode,
    ranks,
    sglang,
    with_phases,
    with_trace,
)
from rich.cells import cell_len

from phasewise.record.run import Run
from phasewise.report.terminal import to_text
from phasewise.report.terminal.traced import traced

NOT_HERE = "not in this trace"

RECAP = ("prefill", "decode", "bound", "yardstick", "value", "floor", "fixes")


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def section(text: str, heading: str) -> str:
    found = text.split(f"\n{heading}\n", 1)[1]
    return re.split(r"\n\n[A-Z]", found, maxsplit=1)[0]


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("width", [80, 60, 200])
def test_it_fits_and_closes_with_the_recap(make: Callable[[], Run], full: bool, width: int) -> None:
    text = to_text(traced(make(), full=full), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), "no escape of a name gets through"
    recap = text[text.rindex("\nRECAP\n") :]
    assert [
        row for row in ("prefill", "decode", "bound", "yardstick", "value", "floor", "fixes") if row not in recap
    ] == []
    assert len(re.findall(r"\n\n[A-Z]", recap)) == 0, "nothing comes after the recap"


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("make", EVERY)
def test_the_two_columns_stand_side_by_side_always(make: Callable[[], Run], width: int) -> None:
    columns = section(to_text(traced(make()), width), "PREFILL BESIDE DECODE")
    assert columns.splitlines()[0].split() == ["prefill", "decode"]
    assert re.match(r"\s*steps\s+\S", columns.splitlines()[2])


def test_the_order_is_that_of_a_tired_reader() -> None:
    text = to_text(traced(sglang()))
    order = [
        "Decode and prefill both pay for kernels",
        "What is wrong with this trace:",
        "PREFILL BESIDE DECODE",
        "WARNING",
        "PREFILL: KERNEL-BOUND",
        "WHO HAD THE TIME",
        "SPEED OF LIGHT",
        "WHAT TO CHANGE FIRST",
        "STEPS",
        "LARGEST KERNELS OF PREFILL",
        "FILES AND DEVICES",
        "HEALTH OF THE TRACE: 2 PASSED, 1 FAILED, 2 NOT CHECKED",
        "RECAP",
    ]
    places = [text.index(title) for title in order]
    assert places == sorted(places)


def test_the_figures_of_the_joined_trace_stand_in_their_columns() -> None:
    rows = [flat(line).strip() for line in to_text(traced(sglang()), 200).splitlines()]
    assert "kernels per step 527 555" in rows
    assert "GPU time 493 ms 9.77 ms" in rows
    assert "median kernel 133 µs 5.17 µs" in rows
    assert "steps 1, 15 requests, 15,360 tokens 1, 32 requests, 32 tokens" in rows
    assert "busy (union) 99.8% of 494 ms 93.5% of 10.5 ms" in rows
    assert "launches of kernels 527 a step, no graph 12 a step; 1 graph launch starts 544 kernels" in rows
    assert (
        "between kernels packed: 0.2% idle, 17 over 10 µs, longest 60.0 µs "
        "gaps: 6.5% idle, 6 over 10 µs, longest 120 µs" in rows
    )
    assert "gemm 420 ms 85.3% 145 5.78 ms 59.2% 145" in rows
    assert "qkv 80.0 ms 16.2% 36" in rows, "a place that only one phase has leaves the other's cells empty"


def test_a_phase_that_was_not_seen_says_so_and_shows_no_zero() -> None:
    columns = section(to_text(traced(only_decode()), 200), "PREFILL BESIDE DECODE")
    first, *rest = columns.split("\n\n")[0].splitlines()[2:]
    assert flat(first).strip() == f"steps {NOT_HERE} 1, 32 requests, 32 tokens"
    at = first.index(NOT_HERE)
    assert all(line[at : at + len(NOT_HERE)].strip() == "" for line in rest), "nothing stands in the empty column"
    recap = section(to_text(traced(only_decode()), 200), "RECAP")
    assert re.search(rf"bound\s+{NOT_HERE}\s+kernel-bound", recap)
    assert re.search(r"value\s+not measured\s+39\.0%", recap)


def test_mixed_and_unknown_stand_below_only_when_there_is_any() -> None:
    assert "mixed" not in to_text(traced(sglang()))
    columns = section(to_text(traced(eager()), 200), "PREFILL BESIDE DECODE")
    main, rest = columns.split("\n\n")[:2]
    assert main.count(NOT_HERE) == 2
    assert rest.splitlines()[0].split() == ["mixed", "unknown"]
    assert re.search(r"gaps: 86\.3% idle, 715 over 10 µs, longest 2\.64 ms", rest)
    assert "70.0 ms a step (predicted)" in rest


def test_what_was_not_measured_is_not_a_zero() -> None:
    text = to_text(traced(counters()), 200)
    below = section(text, "PREFILL BESIDE DECODE").split("\n\n")[1]
    for label in ("busy (union)", "median kernel", "between kernels", "launches", "graphs would save"):
        row = next(line for line in below.splitlines() if line.strip().startswith(label))
        assert row.split("  ")[-1].strip() == "not measured"
    light = section(text, "SPEED OF LIGHT")
    assert re.search(r"DRAM %\s+not measured\s+not measured", light)
    assert re.search(r"memory %\s+not measured\s+90\.7%", light)
    kernel = next(line for line in light.splitlines() if "VecAdd" in line)
    assert flat(kernel).strip() == "VecAdd_kernel unknown n/a n/a n/a n/a n/a not measured; the grid is small"
    assert "Busy fraction: not measured (there is no timeline)." in text


def test_a_full_gpu_is_warned_of() -> None:
    text = flat(to_text(traced(sglang())))
    assert "a utilisation counter would say 100%. WARNING: that only means that some kernel was resident" in text
    unseen = flat(to_text(traced(with_trace(sglang(), resident_fraction=None))))
    assert "what a utilisation counter would say: not measured." in unseen
    assert "utilisation counter" not in section(to_text(traced(on_cpu())), "PREFILL BESIDE DECODE"), (
        "a CPU has no such counter"
    )


def test_an_alarm_stops_the_reader_before_any_figure() -> None:
    top = flat(to_text(traced(alarmed())).split("PREFILL BESIDE")[0])
    assert "STOP: prefill reads 131% MFU" in top
    assert top.index("1. a sparse peak") < top.index("2. the wrong --on")
    assert "131%, not to be believed" in flat(section(to_text(traced(alarmed()), 200), "RECAP"))


def test_graphs_whose_kernels_are_not_listed_are_not_called_empty() -> None:
    assert DECODE.launches
    replays = msgspec.structs.replace(DECODE.launches, kernels_in_graphs=0, graph_launches=20, per_step=1.5)
    bare = msgspec.structs.replace(
        ABSENT, steps=20, gpu_time_s=1e-3, launches=replays, kernels_per_step=0.0, median_kernel_s=None
    )
    text = flat(to_text(traced(with_phases(sglang(), decode=bare)), 200))
    assert "1.5 a step; 20 graph launches start kernels that are not listed" in text
    assert "kernels per step 527 not listed" in text, "which is not that none ran"


def test_operators_stand_for_kernels_on_a_cpu() -> None:
    text = flat(to_text(traced(on_cpu()), 200))
    assert "operators per step 527 555" in text
    assert "CPU time 493 ms 9.77 ms" in text
    assert "No GPU in this trace" in text


def test_the_short_form_shows_some_steps_and_the_full_one_all() -> None:
    short, full = (to_text(traced(ranks(30), full=full), 200) for full in (False, True))
    assert "8 of 30 steps: --full shows all." in short
    assert len(re.findall(r"^\s+[01]\s+decode", short, re.M)) == 8
    assert len(re.findall(r"^\s+[01]\s+decode", full, re.M)) == 30
    assert "one graph launch" in full
    assert "one graph launch" not in short


def test_fixes_are_of_the_step_not_of_a_request() -> None:
    text = flat(to_text(traced(sglang())))
    assert "saves 2.30 ms (1.90 to 2.60 ms), 22.0% of all steps; decode step 10.4 ms, then 8.15 ms (predicted)" in text
    assert "measure first" not in text.lower()
    assert "No fix is ranked." in to_text(traced(only_decode()))


def test_the_second_utilisation_is_the_one_with_gaps() -> None:
    verdict = DECODE.verdict
    assert verdict
    busy = verdict.utilisations[0]
    lower = msgspec.structs.replace(busy, value=msgspec.structs.replace(busy.value, value=0.36))
    two = msgspec.structs.replace(verdict, utilisations=(*verdict.utilisations, lower))
    run = with_phases(sglang(), decode=msgspec.structs.replace(DECODE, verdict=two))
    assert "39.0% of 5.30 TB/s (datasheet); gaps included 36.0%" in flat(to_text(traced(run), 200))


def test_names_are_text_and_nothing_else() -> None:
    text = to_text(traced(hostile(), full=True))
    assert "[bold red]x[/]" in text, "markup is shown, not obeyed"
    coloured = to_text(traced(hostile(), full=True), colour=True)
    assert "\x1b]" not in coloured, "no title, no link"


def test_an_empty_trace_says_that_it_is_empty() -> None:
    text = to_text(traced(nothing()))
    assert text.startswith("No verdict: nothing tells the phases.")
    assert section(text, "PREFILL BESIDE DECODE").count(NOT_HERE) == 2
    assert "No step was found." in text
    assert "No check was made" in text


def test_the_table_says_what_belongs_to_no_step_and_what_launches_started() -> None:
    launches = change(PREFILL.launches, launches=1_000, per_step=1_000.0)
    run = with_trace(with_phases(sglang(), prefill=change(PREFILL, launches=launches)), outside_s=0.502539029)
    rows = [flat(line).strip() for line in to_text(traced(run), 200).splitlines()]
    shares = "share of GPU time 49.0%; 50.0% belongs to no step 1.0%; 50.0% belongs to no step"
    assert shares in rows
    assert any("1,000 a step (473 without a kernel on record), no graph" in row for row in rows)
    assert any(row.startswith("share of GPU time 98.1% 1.9%") for row in map(flat, plain_lines(sglang())))


def plain_lines(run: Run) -> list[str]:
    return [line.strip() for line in to_text(traced(run), 200).splitlines()]


def test_kernels_without_steps_are_not_counted_per_step() -> None:
    rows = [flat(line) for line in plain_lines(counters())]
    assert not any("per step" in row for row in rows if "in all" in row)


def test_the_table_and_the_answer_have_one_word_for_one_bound() -> None:
    verdict = change(PREFILL.verdict, bound="overhead", called="copy-bound")
    text = to_text(traced(with_phases(sglang(), prefill=change(PREFILL, verdict=verdict))), 200)
    assert "PREFILL: COPY-BOUND" in text
    assert "overhead-bound" not in text
