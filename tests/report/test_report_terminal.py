"""The terminal: 80 columns, no colour needed, nothing steered by a name, the recap last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from example_run import (
    EVERY,
    NO_ACCELERATOR,
    alarmed,
    cpu,
    failed,
    forecast,
    h100,
    hostile,
    interrupted,
    long_winded,
    only_prefill,
    unknown,
)
from rich.cells import cell_len

from phasewise.record.run import Run
from phasewise.report.terminal import prediction, profile, to_text

RECAP = ("RECAP", "prefill", "decode", "bound", "yardstick", "value", "floor", "fixes")


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def after(text: str, heading: str) -> str:
    """The section under ``heading``, up to the next one."""
    found = text.split(f"\n{heading}", 1)[1]
    return re.split(r"\n\n[A-Z]", found, maxsplit=1)[0]


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("shape", [profile, lambda run: prediction(run, True)], ids=["profile", "predict"])
@pytest.mark.parametrize("width", [80, 60])
def test_plain_text_fits_and_closes_with_the_recap(
    make: Callable[[], Run], shape: Callable[[Run], object], width: int
) -> None:
    text = to_text(shape(make()), width)  # type: ignore[arg-type]
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert not re.search(r"[\u2500-\u25ff]", text), "lines and blocks are ASCII when piped"
    assert all(line == line.rstrip() for line in text.splitlines())
    recap = text[text.rindex("\nRECAP\n") :]
    assert [word for word in RECAP if word not in recap] == []
    assert len(re.findall(r"\n\n[A-Z]", recap)) == 0, "nothing comes after the recap"


def test_the_verdict_is_the_first_thing_said() -> None:
    assert flat(to_text(profile(h100(), full=True))).startswith(
        "Decode owns 97% of a 2,000-in/300-out request (1.87 s) and is memory-bound: 75% of its step, 75.5% MBU."
    )


def test_prediction_says_the_reference_table_to_the_last_digit() -> None:
    text = to_text(prediction(forecast()))
    flattened = flat(text)
    assert flattened.startswith(
        "Napkin. Prefill of 2,000 tokens: 32.5 ms of math against 4.79 ms of reading the weights"
    )
    assert "4.87 ms of reading (16.06 GB of weights + 262 MB of KV) against 16.2 µs of math, ×300" in flattened
    assert "29.3 ms" in after(text, "COUNTED")
    assert "4.56 ms" in after(text, "COUNTED")
    assert "131,072 B" in text
    assert "53,250 tokens" in text
    batch = next(line for line in text.splitlines() if line.split()[:1] == ["64"])
    assert batch.split() == ["64", "9.49", "ms", "×30.7", "9.80", "ms", "×31.8"]
    lengths = {line.split()[0]: line for line in after(text, "PREFILL OVER").splitlines() if "-bound" in line}
    assert lengths["2,000"].endswith("3.6%")
    assert lengths["32,000"].endswith("37.5%")
    assert "4: ×4.0" in flattened
    assert "decode is 97.9% of it" in flattened


def test_the_order_of_a_prediction() -> None:
    text = to_text(prediction(forecast(), explain=True))
    order = ["Napkin.", "COUNTED", "DECODE OVER BATCH", "PREFILL OVER", "WHERE THE TIME GOES", "EVERY FORMULA", "RECAP"]
    places = [text.index(title) for title in order]
    assert places == sorted(places)


def test_formulas_are_shown_when_asked_for() -> None:
    formula = "= 32 layers × 8 heads × 128 × 2 × 2 B"
    assert formula in to_text(prediction(forecast(), explain=True))
    assert formula not in to_text(prediction(forecast(), explain=False))


def test_a_prediction_ranks_no_fix() -> None:
    recap = to_text(prediction(forecast())).split("RECAP")[1]
    assert recap.count("measure first: phasewise profile") == 2
    assert recap.count("not measured") == 2


def test_nothing_is_ranked_for_a_phase_that_was_not_measured() -> None:
    text = to_text(profile(only_prefill(), full=True))
    assert "DECODE: NOT MEASURED" in text
    assert "4-bit weights" not in text
    assert "Decode was not measured, so nothing is ranked for it." in flat(text)
    assert "measure first: phasewise profile" in text.split("RECAP")[1]


def test_the_figures_stand_where_they_belong() -> None:
    text = to_text(profile(h100(), full=True))
    rows = [flat(line).strip() for line in text.splitlines()]
    assert any(re.fullmatch(r"prefill 47\.9 ms 2\.6% #\.+", row) for row in rows)
    assert any(re.fullmatch(r"decode 1\.82 s 97\.4% #+\.", row) for row in rows)
    assert any(re.fullmatch(r"memory floor 4\.56 ms 75\.1% #+\.+", row) for row in rows)
    assert "1,024 25.5 ms 25.3 to 25.8 ms 25.5 ms 15.0 ms 57.7% 7" in rows
    assert "2,150 6.08 ms 6.06 to 6.11 ms 6.08 ms 4.56 ms 75.1% 4" in rows
    assert "160 5.94 ms 5.92 to 5.96 ms 5.94 ms 4.49 ms 75.5% 4" in rows
    recap = [flat(line).strip() for line in text.split("RECAP")[1].splitlines()]
    assert "bound compute-bound: 61.8% of the step memory-bound: 75.1% of the step" in recap
    assert "yardstick MFU MBU" in recap
    assert "value 61.2% 75.5%" in recap


def test_both_bases_and_the_normal_note_are_shown() -> None:
    text = flat(to_text(profile(h100(), full=True)))
    assert "MFU (datasheet) 61.2%" in text
    assert "MFU (stated) 60.5%" in text
    assert "- 0.26% MFU is normal for decode at batch 1" in text


def test_unknown_machine_says_which_flag_would_help() -> None:
    text = flat(to_text(profile(unknown(), full=True)))
    assert f"n/a: {NO_ACCELERATOR}" in text
    assert "5.94 ms" in text


def test_an_alarm_stops_and_lists_causes_in_order() -> None:
    text = flat(to_text(profile(alarmed(), full=True)))
    assert "STOP: prefill at 2,000 tokens reads 131% MFU" in text
    assert text.index("1. a sparse peak") < text.index("2. the wrong accelerator")
    assert "131%, not to be believed" in text


def test_a_failed_check_is_named_with_what_it_saw() -> None:
    text = to_text(profile(failed(), full=True))
    assert "PREFILL: COMPUTE-BOUND (NOT TO BE BELIEVED)" in text
    first = after(text, "CHECKS").splitlines()[3]
    assert first.split()[:2] == ["FAILED", "uncached"]
    assert "1,984 of 2,000 prompt tokens came from a cache" in flat(text)


def test_an_interrupted_run_shows_what_it_has() -> None:
    text = flat(to_text(profile(interrupted(), full=True)))
    assert "Interrupted run: stopped by Ctrl-C after 9 s; what was measured until then is below." in text
    assert "128 5.85 ms" in text


def test_the_mix_has_a_row_per_request() -> None:
    text = flat(to_text(profile(cpu(), full=True)))
    assert "2,000 300 0.7 7.71 s 3.11 s 10.8 s 28.7% prefill" in text
    assert "prefill takes 67.2% and decode 32.8%" in text


def test_names_are_text_and_nothing_else() -> None:
    text = to_text(profile(hostile(), full=True))
    assert "[bold red]x[/]" in text, "markup is shown, not obeyed"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    coloured = to_text(profile(hostile(), full=True), colour=True)
    assert "\x1b]" not in coloured, "no title, no link"
    ours = to_text(profile(h100(), full=True), colour=True)
    escapes = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
    assert set(escapes.findall(coloured)) <= set(escapes.findall(ours))


def test_long_names_are_cut() -> None:
    assert (
        "x" * 200
        not in flat(to_text(profile(long_winded(), full=True), 4000)).split("WHERE")[0].split("Partial")[0][900:]
    )


def test_colour_repeats_words_and_adds_none() -> None:
    coloured = to_text(profile(h100(), full=True), colour=True)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    plain = to_text(profile(h100(), full=True))
    assert re.sub(r"[─█·#.\-\s]+", "", bare) == re.sub(r"[─█·#.\-\s]+", "", plain)


PIPED = (
    "from example_run import h100; from phasewise.report.terminal import *; print_report(profile(h100(), full=True))"
)


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"COLUMNS": "200"}])
def test_a_pipe_gets_plain_text(environment: dict[str, str]) -> None:
    done = _piped(environment)
    assert done.decode() == to_text(profile(h100(), full=True))


def test_an_encoding_that_knows_only_ascii_gets_stand_ins() -> None:
    done = _piped({"PYTHONIOENCODING": "ascii"})
    text = done.decode("ascii")
    assert "21.4 us/token" in text
    assert "?" not in text
    assert [len(line) for line in text.splitlines()] == [
        len(line) for line in to_text(profile(h100(), full=True)).splitlines()
    ]


def _piped(environment: dict[str, str]) -> bytes:
    base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")}
    done = subprocess.run(
        [sys.executable, "-c", PIPED],
        env={**base, "PYTHONUTF8": "1", **environment, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_the_short_form_keeps_the_answer_and_drops_the_sources() -> None:
    short, full = to_text(profile(h100())), to_text(profile(h100(), full=True))
    assert len(short.splitlines()) < 0.6 * len(full.splitlines())
    for section in ("WHERE THE TIME GOES", "PREFILL", "DECODE", "CHECKS", "WHAT TO CHANGE FIRST", "RECAP"):
        assert section in short
    assert "Passed: " in flat(short)
    assert "verify:" not in short


def test_the_short_form_shows_every_check_that_did_not_pass() -> None:
    text = flat(to_text(profile(failed())))
    run = failed()
    assert run.observation is not None
    for check in run.observation.checks:
        if check.status != "passed":
            assert flat(check.detail)[:30] in text


def test_the_folder_of_a_saved_run_is_named_before_the_recap() -> None:
    text = to_text(profile(h100(), Path("runs/one")))
    assert 0 < text.index("phasewise report runs/one") < text.index("RECAP")
    assert "runs/one/report.html" in text
