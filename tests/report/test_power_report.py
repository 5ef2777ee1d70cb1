"""Power in every form: what must be said is said, and names from outside stay text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

sys.path.append(str(Path(__file__).parent.parent / "judge"))

from power_by_hand import series, steps

from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.windows import Span
from phasewise.record.envelope import Envelope
from phasewise.record.power import Power
from phasewise.record.run import Run
from phasewise.report import markdown, show, terminal
from phasewise.report.html import power as page
from phasewise.report.json.power import power as document
from phasewise.report.markdown.power import power as marked
from phasewise.report.terminal.power import power as text


def planted(**more: object) -> Power:
    given: dict[str, object] = {
        "seconds": 12,
        "watts": steps((0, 80), (3, 640), (5, 80), (6, 250), (8, 80)),
        "utilisation": steps((0, 0), (3, 1), (5, 0), (6, 1), (8, 0)),
        "limit_w": 700,
        "sm_hz": 1.98e9,
    } | more
    spans = (Span("prefill", 103.0, 104.99, 10_000), Span("decode", 106.0, 107.99, 100))
    joined = Joined(spans=spans, busy=((103.0, 105.0), (106.0, 108.0)), boundary="From here to there.")
    return judge([series(**given)], joined, provenance="reported", how="nvidia-smi.")  # type: ignore[arg-type]


def run(power: Power, command: str = "power") -> Run:
    envelope = Envelope(
        id="x", command=command, arguments=(), created="2026-11-30T12:00:00+00:00", duration_s=1.0, status="complete"
    )
    return Run(envelope=envelope, power=power)


def by_batch() -> Power:
    """Decode at batch 1 for 2 s and 100 tokens, at batch 8 for 2 s and 800, at batch 16 for 0.1 s."""
    spans = (
        Span("decode", 103.0, 104.99, 100, requests=1, cell=(1, 32)),
        Span("decode", 106.0, 107.99, 800, requests=8, cell=(8, 32)),
        Span("decode", 109.0, 109.1, 80, requests=16, cell=(16, 32)),
    )
    busy = ((102.9, 105.0), (105.9, 108.0), (108.9, 109.1))
    joined = Joined(spans=spans, busy=busy, boundary="From here to there.", expected=("prefill", "decode", "mixed"))
    level = steps((0, 80), (3, 200), (5, 80), (6, 320), (8, 80))
    busy_part = steps((0, 0), (3, 1), (5, 0), (6, 1), (8, 0))
    one = series(seconds=12, watts=level, utilisation=busy_part, limit_w=700, sm_hz=1.98e9)
    return judge([one], joined, provenance="measured", how="NVML.")


def words(found: str) -> str:
    return " ".join(found.split())


def test_the_terminal_says_boundary_rate_windows_and_idle() -> None:
    """What TokenPowerBench leaves unsaid, and what 100% utilisation is worth."""
    shown = words(terminal.to_text(text(run(planted()), None)))
    assert "From here to there." in shown
    assert "a reading every 50.0 ms" in shown
    assert "prefill: 1 window, 1.99 s in all, of 1 repeat" in shown
    assert "Idle baseline: 80.0 W" in shown
    assert "GPU utilisation 100.0% in decode only means that some kernel was resident" in shown
    assert "MBU is not known here" in shown
    assert "J/output token" in shown
    assert "mJ/input token" in shown
    assert "no fault" in shown


def test_without_a_limit_no_share_is_made_up() -> None:
    shown = words(terminal.to_text(text(run(planted(limit_w=None)), None)))
    assert "the power limit is unknown" in shown
    assert "of the enforced limit" not in shown
    found = document(run(planted(limit_w=None)))
    assert found["power"]["phases"]["decode"]["share_of_limit"] is None  # type: ignore[index, call-overload]
    assert "--limit" in found["reasons"]["power.phases.decode.share_of_limit"]  # type: ignore[index, call-overload]


def test_the_document_is_plain_si_with_provenance() -> None:
    found = json.loads(msgspec.json.encode(document(run(planted()))))
    decode = found["power"]["phases"]["decode"]
    assert decode["watts"] == pytest.approx(250)
    assert decode["j_per_token"] == pytest.approx(4.975)
    origin = found["provenance"]["power.phases.decode.watts"]
    assert (origin["unit"], origin["provenance"]) == ("W", "reported")
    assert "no energy counter" in found["reasons"]["power.phases.decode.counted_j"]


def test_a_failed_check_stands_before_the_figures() -> None:
    power = planted(sm_hz=steps((0, 1.98e9), (7, 1.605e9)))
    shown = words(terminal.to_text(text(run(power), None)))
    assert shown.index("Not to be compared: the clock of GPU 0 went from 1,980 MHz to 1,605 MHz") < shown.index(
        "HOW IT WAS"
    )


def test_the_page_draws_watts_on_the_phases_and_needs_nothing_else() -> None:
    html = page.render(run(planted()))
    assert html.count("<polyline") == 1
    assert 'class="band is-prefill"' in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert page.over_time(msgspec.structs.replace(planted(), points=())) is None


def test_markdown_ends_with_the_table() -> None:
    shown = marked(run(planted()))
    assert shown.startswith("**Prefill draws 640 W")
    assert "| watts, mean" in shown


def test_names_from_a_file_stay_text() -> None:
    power = planted()
    hostile = "<script>alert(1)</script>\x1b[31m|pipe"
    devices = (msgspec.structs.replace(power.devices[0], name=hostile, watts_are=hostile, notes=(hostile,)),)
    one = run(msgspec.structs.replace(power, devices=devices, how=hostile))
    assert "<script>alert" not in page.render(one)
    assert "\x1b" not in terminal.to_text(text(one, None))
    assert "<script>alert" not in marked(one)


def test_a_profile_shows_its_power_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    one = run(planted(), "profile")
    for form in ("text", "html", "markdown", "json"):
        show.again(one, None, form)  # type: ignore[arg-type]
        assert "640" in capsys.readouterr().out
    assert "### Power" in markdown.profile(one)
    bare = run(Power(missing={"run": "no meter"}), "profile")
    assert "### Power" not in markdown.profile(bare)
    show.again(bare, None, "html")
    assert 'id="power"' not in capsys.readouterr().out


def test_the_batches_stand_in_every_form_with_joules_per_output_token() -> None:
    """An operator wants to see that they fall as the batch grows; what is too short to be judged says so."""
    one = run(by_batch(), "sweep")
    found = json.loads(msgspec.json.encode(document(one)))
    rows = found["power"]["batches"]
    assert [(row["batch"], row["prompt_tokens"]) for row in rows] == [(1, 32), (8, 32), (16, 32)]
    assert [row["watts"] for row in rows] == [pytest.approx(200), pytest.approx(320), None]
    assert rows[0]["j_per_token"] == pytest.approx(200 * 1.99 / 100)
    assert rows[1]["j_per_token"] == pytest.approx(320 * 1.99 / 800)
    assert rows[1]["share_of_limit"] == pytest.approx(320 / 700)
    assert "shorter than 0.2 s" in found["reasons"]["power.batches.2.watts"]
    assert "shorter than 0.2 s" in rows[2]["left_out"]
    for shown in (words(terminal.to_text(text(one, None))), words(marked(one)), words(page.render(one))):
        assert "Decode by batch" in shown
        assert "J per output token" in shown
        assert "3.98" in shown
        assert "0.796" in shown
        assert "45.7%" in shown
        assert "shorter than 0.2 s" in shown


def test_without_batches_there_is_no_table_of_them() -> None:
    one = run(planted())
    for shown in (terminal.to_text(text(one, None)), marked(one), page.render(one)):
        assert "Decode by batch" not in shown


def test_a_phase_that_did_not_run_by_itself_is_named() -> None:
    shown = words(terminal.to_text(text(run(by_batch()), None)))
    assert "Prefill: it was not seen by itself" in shown
    assert "Mixed: it was not seen by itself" in shown
