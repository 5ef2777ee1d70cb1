"""A power sweep in every form: what was found is there, and a name that is no word is harmless."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from phasewise.record.envelope import Envelope
from phasewise.record.power_sweep import AtCap, Cap, CapVerdict, Drawn, Held, Knee, PowerSweep, Slope
from phasewise.record.quantity import Quantity, measured
from phasewise.record.run import Run, load, save
from phasewise.report import show
from phasewise.report.terminal.power_sweep import power_sweep as terminal
from phasewise.report.view import power_sweep as view

HOSTILE = "GPU 0 (<script>alert(1)</script>\x1b[31m)"


def q(value: float, unit: str = "W", spread: float | None = None) -> Quantity:
    low, high = (None, None) if spread is None else (value * (1 - spread), value * (1 + spread))
    return measured(value, unit, "planted", low, high)  # type: ignore[arg-type]


def at(seconds: float, ratio: float | None, watts: float, engaged: str) -> AtCap:
    drawn = Drawn(
        readings=40, watts=q(watts), highest_w=watts, sm=q(1.98e9, "Hz"), capped=1.0 if engaged == "yes" else 0.0,
        hot=0.0, slowed=None, limit_w=(350.0, 700.0),
    )  # fmt: skip
    return AtCap(
        tokens=1024,
        time=q(seconds, "s", 0.01),
        ratio=None if ratio is None else q(ratio, "1", 0.02),
        drawn=drawn,
        energy=q(watts * seconds / 1024, "J/token"),
        engaged=engaged,  # type: ignore[arg-type]
    )


def run(trouble: str = "", caps: bool = True) -> Run:
    found = PowerSweep(
        cards=(
            Held(name=HOSTILE, found=q(700), least=q(200), most=q(700), met=q(350), restored=q(700), trouble=trouble),
        ),
        caps=(
            Cap(asked=q(700), limit=q(700), prefill=at(0.1, None, 650, "no"), decode=at(0.008, None, 300, "no")),
            Cap(asked=q(350), limit=q(350), prefill=at(0.16, 1.6, 350, "yes"), decode=at(0.008, 1.0, 300, "no")),
            Cap(asked=q(300), limit=q(300), decode=at(0.008, 1.0, 300, "yes"), disturbed="somebody else changed it"),
        )
        if caps
        else (),
        verdicts=(
            CapVerdict(phase="prefill", answer="slows", text="Prefill is slowed."),
            CapVerdict(phase="decode", answer="never engaged", text="The cap never engaged in decode."),
        )
        if caps
        else (),
        knee=Knee(limit=q(350), sure=False, text="350 W.") if caps else None,
        slopes=(
            Slope(phase="prefill", follows="clock", slope=q(1.0, "1", 0.1), lowest=q(1.2e9, "Hz"),
                  highest=q(1.98e9, "Hz"), samples=20, moved=("heat",), text="Prefill follows the SM clock."),
            Slope(phase="decode", follows="too little spread", slope=None, lowest=None, highest=None, samples=0,
                  moved=(), text="Decode: the SM clock stood."),
        ),
    )  # fmt: skip
    envelope = Envelope(
        id="planted",
        command="power sweep",
        arguments=(),
        created="2026-11-30T00:00:00+00:00",
        duration_s=1.0,
        status="complete",
    )
    return Run(envelope=envelope, power_sweep=found)


def text(one: Run) -> str:
    out = io.StringIO()
    Console(file=out, width=80, no_color=True).print(terminal(one))
    return " ".join(out.getvalue().split())


def test_the_headline() -> None:
    assert view.headline(run()) == (
        "Prefill is slowed, ×1.60 at 350 W and decode met no cap: it drew 300 W at most. "
        "Decode keeps its speed down to 350 W, by the medians."
    )
    assert view.headline(run(caps=False)) == (
        "Prefill follows the SM clock (slope 1.00) and decode ran at one SM clock."
    )
    assert view.headline(Run(envelope=run().envelope)) == "No verdict: nothing was measured."


def test_the_terminal_fits_80_columns_and_says_all() -> None:
    said = text(run())
    for part in ("1.600", "somebody else changed it; not judged", "limit 700 W before, 700 W after", "heat", "n/a"):
        assert part in said
    assert "\x1b" not in said
    assert "700 W NOT" not in said


def test_a_limit_that_is_not_back_is_shouted() -> None:
    assert "is NOT as it was found, at 700 W: sudo nvidia-smi" in text(run(trouble="sudo nvidia-smi -i 0 -pl 700."))


@pytest.mark.parametrize("form", ["text", "html", "markdown", "json"])
@pytest.mark.parametrize("caps", [True, False])
def test_every_form(form: str, caps: bool, capsys: pytest.CaptureFixture[str]) -> None:
    show.again(run(caps=caps), None, form)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "<script>alert" not in said or form in ("json", "text")
    if form != "json":
        assert "\x1b" not in said
    if form == "json":
        told = json.loads(said)
        assert [cap["limit_w"] for cap in told["caps"]] == ([700, 350, 300] if caps else [])
        assert told["slopes"]["decode"]["slope"] is None
        assert "stood" in told["reasons"]["slopes.decode.slope"]
        if caps:
            assert told["caps"][1]["prefill"]["ratio"] == 1.6
            assert told["provenance"]["caps.1.prefill.ttft_s"]["unit"] == "s"
            assert told["caps"][2]["prefill"] is None
            assert told["caps"][0]["prefill"]["slowed"] is None
            assert list(told)[-3] == "recap"


def test_the_chart_has_a_point_per_cap_and_phase(capsys: pytest.CaptureFixture[str]) -> None:
    show.again(run(), None, "html")
    page = capsys.readouterr().out
    assert page.count("<circle") == 2 + 3


def test_it_is_saved_and_read_again(tmp_path: Path) -> None:
    save(run(), tmp_path)
    assert load(tmp_path) == run()


def test_what_was_put_back() -> None:
    (said,) = view.put_back(run().power_sweep.cards)  # type: ignore[union-attr]
    assert said.endswith("is put back from 350 W to 700 W.")
    assert list(view.put_back(())) == ["No limit is to be put back."]
