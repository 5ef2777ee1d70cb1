"""The document of ``power sweep --json``."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.record.power_sweep import AtCap, Cap, Drawn, Held, Knee, PowerSweep, Slope
from phasewise.record.quantity import Quantity, measured
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing, document
from phasewise.report.view import heading
from phasewise.report.view import power_sweep as view
from phasewise.units import Unit

_NOT_MEASURED = Missing("it was not measured")
_NO_LIMIT_SET = Missing("no limit was set: that needs --set-limits")
_NOT_TOLD = Missing("the driver does not say")


def power_sweep(run: Run) -> dict[str, object]:
    """Everything that a power sweep found, every leaf in SI. Ends with the recap."""
    found = run.power_sweep or PowerSweep()
    table, knee = view.recap(run), found.knee
    return document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "verdict": {"text": view.headline(run), "phases": _verdicts(found)},
            "notices": heading.notices(run),
            "caps": [_cap(cap) for cap in found.caps],
            "knee": _knee(knee) if knee else _NOT_MEASURED if found.caps else _NO_LIMIT_SET,
            "slopes": {slope.phase: _slope(slope) for slope in found.slopes},
            "cards": [_card(card) for card in found.cards],
            "notes": found.notes,
            "target": run.target or Missing("no target is recorded"),
            "recap": {row[0].text: [cell.text for cell in row[1:]] for row in table.rows},
        }
    )


def restored(cards: Sequence[Held]) -> dict[str, object]:
    """The document of ``power restore --json``."""
    return document({"cards": [_card(card) for card in cards]})


def _verdicts(found: PowerSweep) -> dict[str, object]:
    return {one.phase: {"answer": one.answer, "text": one.text} for one in found.verdicts}


def _knee(knee: Knee) -> dict[str, object]:
    return {"limit_w": knee.limit or Missing("every cap costs decode more"), "sure": knee.sure, "text": knee.text}


def _card(card: Held) -> dict[str, object]:
    return {
        "name": card.name,
        "found_w": card.found,
        "met_w": card.met or _NOT_TOLD,
        "restored_w": card.restored or _NOT_TOLD,
        "least_w": card.least,
        "most_w": card.most,
        "trouble": card.trouble,
    }


def _cap(cap: Cap) -> dict[str, object]:
    return {
        "asked_w": cap.asked,
        "limit_w": cap.limit,
        "enforced_w": cap.enforced or Missing("no lower limit holds"),
        "again": cap.again,
        "disturbed": cap.disturbed,
        "doubts": cap.doubts,
        "prefill": _side(cap.prefill, "ttft_s") if cap.prefill else _NOT_MEASURED,
        "decode": _side(cap.decode, "tpot_s") if cap.decode else _NOT_MEASURED,
    }


def _side(at: AtCap, name: str) -> dict[str, object]:
    return {
        "tokens": measured(at.tokens, "token", "prompt of the prefill, context of the decode"),
        name: at.time,
        "ratio": at.ratio or Missing("it is what the others are held against"),
        "energy_per_token": at.energy or _NOT_TOLD,
        "engaged": at.engaged,
        "otherwise": at.otherwise,
        **_drawn(at.drawn),
    }


def _drawn(drawn: Drawn) -> dict[str, object]:
    return {
        "readings": measured(drawn.readings, "1", "readings of each card within the requests"),
        "watts": drawn.watts or _NOT_TOLD,
        "highest_w": _bare(drawn.highest_w, "W", "95th percentile of the highest card"),
        "sm_hz": drawn.sm or _NOT_TOLD,
        "capped": _bare(drawn.capped, "1", "share of the readings with power throttling"),
        "hot": _bare(drawn.hot, "1", "share of the readings with thermal throttling"),
        "slowed": _bare(drawn.slowed, "1", "share of the readings with power brake or hardware slowdown"),
    }


def _bare(value: float | None, unit: Unit, source: str) -> Quantity | Missing:
    return _NOT_TOLD if value is None else measured(value, unit, source)


def _slope(slope: Slope) -> dict[str, object]:
    return {
        "follows": slope.follows,
        "slope": slope.slope or Missing(slope.text),
        "lowest_hz": slope.lowest or _NOT_TOLD,
        "highest_hz": slope.highest or _NOT_TOLD,
        "samples": measured(slope.samples, "request", "with a clock beside them"),
        "moved": slope.moved,
        "text": slope.text,
    }
