"""``what_if`` of ``predict --json``."""

from __future__ import annotations

from phasewise.record.quantity import predicted
from phasewise.record.run import Run
from phasewise.record.whatif import Gain, Outcome, Trial
from phasewise.report.json.leaves import Missing

_FLOOR = "floor, with communication"


def sections(run: Run) -> dict[str, object]:
    """The outcome as it is, after each change, and after all; nothing when no change was asked for."""
    found = run.what_if
    if found is None:
        return {}
    return {
        "what_if": {
            "before": _outcome(found.before),
            "changes": [_trial(trial) for trial in found.trials],
            "together": _trial(found.together) if found.together else Missing("fewer than two different changes"),
            "notes": list(found.notes),
        }
    }


def _trial(trial: Trial) -> dict[str, object]:
    refused = Missing(trial.refused)
    return {
        "change": trial.change,
        "refused": trial.refused,
        "after": _outcome(trial.outcome) if trial.outcome else refused,
        "prefill": _gain(trial.prefill) if trial.prefill else refused,
        "decode": _gain(trial.decode) if trial.decode else refused,
        "figures": trial.figures,
        "notes": list(trial.notes),
    }


def _outcome(one: Outcome) -> dict[str, object]:
    alone = Missing("at batch 1 no other request waits")
    return {
        "batch": one.batch,
        "devices": one.devices,
        "ttft_s": predicted(one.ttft_s, "s", _FLOOR),
        "step_s": predicted(one.step_s, "s", _FLOOR),
        "tokens_per_step": predicted(one.tokens_per_step, "token", "of one request, expected"),
        "tpot_s": predicted(one.tpot_s, "s", _FLOOR),
        "longest_gap_s": alone if one.stall_s is None else predicted(one.stall_s, "s", "a step that takes in a prompt"),
        "tokens_per_s": predicted(one.tokens_per_s, "token/s", "of the whole batch"),
        "total_s": predicted(one.total_s, "s", _FLOOR),
        "fits": one.fits,
    }


def _gain(gain: Gain) -> dict[str, object]:
    return {
        "before_s": predicted(gain.before_s, "s", _FLOOR),
        "after_s": predicted(gain.after_s, "s", _FLOOR),
        "speedup": predicted(gain.before_s / gain.after_s, "1", "before over after"),
        "owner": gain.owner or Missing("nothing changes"),
        "owner_before_s": predicted(gain.owner_before_s, "s", f"a {gain.per or 'step'}"),
        "owner_after_s": predicted(gain.owner_after_s, "s", f"a {gain.per or 'step'}"),
        "per": gain.per,
    }
