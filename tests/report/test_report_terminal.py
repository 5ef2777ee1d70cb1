"""The terminal: 80 columns, no colour needed, nothing steered by a name, the recap last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from example_run import (
    EVERY,
    NO_ACCELERATOR,
    alarmed,
    cpu,
    doubtful,
    failed,
    forecast,
    h100,
    hostile,
    interrupted,
    long_winded,
    mixture,
    only_prefill,
    unknown,
    unsure,
)
from rich.cells import cell_len

from phasewise.record.observation import Check
from phasewise.record.remedies import Remedies
from phasewise.record.run import Run
from phasewise.report import html, json, markdown
from phasewise.report.terminal import prediction, profile, to_text
from phasewise.report.view.recap import recap

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
    assert "value 61.2% at 2,000 tokens 75.5% at 160 tokens" in recap


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


def test_a_failed_check_that_voids_nothing_stands_under_the_verdict_in_every_form() -> None:
    run = doubtful()
    said = "Doubt: clock (run): times rose by 9% over the run"
    top, _, rest = flat(to_text(profile(run))).partition("WHERE THE TIME GOES")
    assert said in top
    assert "Doubt: warm (decode)" in top
    assert "warm (prefill)" in rest.split("Passed:")[1], "which does not contradict the twin that failed"
    value = next(row for row in recap(run).rows if row[0].text == "value")
    assert value[1].text == "61.2% at 2,000 tokens, see the failed checks"
    assert value[2].text.endswith("see the failed checks")
    assert said in markdown.profile(run).replace("\\", "").replace("&#35;", "#").split("###")[0]
    assert said in html.render(run).split("<main>")[0]
    assert next(notice["text"] for notice in json.profile(run)["notices"]) == said  # type: ignore[attr-defined]


def test_a_void_check_of_a_phase_without_a_verdict_is_said_too() -> None:
    run = interrupted()
    assert run.observation
    lost = Check(name="streamed", phase="decode", status="failed", detail="one piece", voids=True)
    run = msgspec.structs.replace(run, observation=msgspec.structs.replace(run.observation, checks=(lost,)))
    text = flat(to_text(profile(run)))
    assert "The decode figures must not be believed, these checks failed: - streamed (decode): one piece" in text


def test_a_bound_that_has_a_rival_names_both_everywhere() -> None:
    run, both = doubtful(), "overhead- or kernel-bound"
    text = to_text(profile(run))
    assert f"DECODE: {both.upper()}" in text
    assert both in flat(text.split("RECAP")[1])
    assert f"### Decode: {both}" in markdown.profile(run)
    assert f'<span class="chip">{both}</span>' in html.render(run)


def test_nobody_owns_what_is_unsure_or_not_believed() -> None:
    text = flat(to_text(profile(unsure())))
    assert "One request alone, predicted: 50,000 tokens in" in text
    assert "Which phase owns the total of 3.52 s is within the noise." in text
    assert "the TTFT of 1.70 s (extended beyond the longest prompt measured)" in text
    for run in (alarmed(), failed()):
        for said in (flat(to_text(profile(run))), markdown.profile(run), html.render(run)):
            assert "owns the total" not in said
            assert "nobody is named its owner" in said


def test_what_frees_the_accelerator_is_not_sold_as_a_shorter_wait() -> None:
    text = flat(to_text(profile(h100())))
    assert (
        "bigger batches (32) (decode): frees the accelerator saves 1.70 s (1.36 to 1.87 s) of accelerator time per "
        "request; accelerator time per token 5.69 ms, then 273 µs (predicted)" in text
    )
    page = html.render(h100())
    assert page.count('class="gauge"') == 4, "its bar would say that it matters most"
    latency, throughput = page.split("<h3>Shortens the request</h3>")[1].split("<h3>Frees the accelerator")
    assert "bigger batches" not in latency
    assert "Accelerator time per token" in throughput
    assert "of the request" not in throughput.split("Would not help")[0]


def test_the_fit_and_its_slope_are_a_line_each() -> None:
    text = flat(to_text(profile(h100())))
    assert "TTFT = 3.10 ms + 21.4 µs per token + 500 ps per token² (its overhead share: the intercept, less" in text
    assert "step = 5.93 ms + 70.0 ns per token of context" in text
    assert "Its slope alone, free of overhead: 63.8% MFU (datasheet)" in text
    assert "Its slope alone, free of overhead: 55.9% MBU (datasheet)" in text


def test_the_headline_of_decode_names_the_context_that_it_is_of() -> None:
    text = flat(to_text(profile(h100())))
    assert "TPOT at 160 tokens of context, 5.94 ms: 75.5% MBU of 3.35 TB/s (datasheet)" in text
    assert "Step taken apart at 2,150 tokens of context: 6.08 ms (measured), floor 4.56 ms (predicted)" in text
    assert "TTFT at 2,000 tokens, 47.9 ms: 61.2% MFU of 989 TFLOP/s (datasheet)" in text


def test_why_nothing_is_known_is_said_in_full_once() -> None:
    run = unknown()
    assert run.judgement
    why = "unknown without --model (the server calls it 'x (v1)') and --on (a name, or `this`)"
    bare = {
        phase: msgspec.structs.replace(verdict, why_null=why)
        for phase, verdict in (("prefill", run.judgement.prefill), ("decode", run.judgement.decode))
        if verdict
    }
    for text in (f"Decode owns it; what it is bound on cannot be said: {why}.", "No verdict."):
        verdict = msgspec.structs.replace(run.judgement.verdict, text=text)
        shown = msgspec.structs.replace(
            run,
            judgement=msgspec.structs.replace(run.judgement, verdict=verdict, **bare),
            remedies=Remedies(fixes=(), rejected=(), note=f"No fix is ranked: {why}."),
        )
        said = flat(to_text(profile(shown)))
        assert said.count("the server calls it") == 1
        assert said.count("unknown without --model and --on") >= 3
        assert "No fix is ranked: unknown without --model and --on." in said
        assert json.profile(shown)["reasons"]["decode.mbu"] == why  # type: ignore[index]


def test_a_model_that_is_more_than_dense_text_says_so() -> None:
    for shape in (lambda run: profile(run, full=True), profile, prediction):
        text = flat(to_text(shape(mixture())))  # type: ignore[operator]
        for said in ("3,000,000,000", "400,000,000", "90,000,000", "audio encoder", "the router's choice"):
            assert said in text
    assert "12.0 MB" in to_text(profile(mixture(), full=True))
    assert "vision" not in to_text(profile(h100(), full=True))


def test_the_notes_of_the_machine_are_shown_in_the_short_form_too() -> None:
    assert "The ceilings are those of all 8 cores." in flat(to_text(profile(mixture())))


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
