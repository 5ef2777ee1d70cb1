"""What a bare number, or a null, means by its name in the document of ``load --json``."""

from __future__ import annotations

from phasewise.report.json.bare import NO_WORKER, WORKERS, Origin

_STATED = "as stated"

ORIGINS: dict[str, Origin] = WORKERS | {
    "plan.requests": Origin("request", "assumed", "to be sent; of a closed loop at most"),
    "plan.prompt_tokens": Origin("token", "assumed", "of all that is to be sent"),
    "plan.answer_tokens": Origin("token", "assumed", "of all that is to be sent, answers as long as they may be"),
    "plan.seconds": Origin("s", "assumed", "in which requests are sent"),
    "drain_s": Origin("s", "assumed", "that what is in the air may take after that"),
    "warmup": Origin("request", "assumed", "before the start; no figure uses them"),
    "warmup_tokens": Origin("token", "assumed", "in and out of these"),
    "seed": Origin("1", "assumed", _STATED),
    "users": Origin("1", "assumed", "of a closed loop; 0 in an open one"),
    "sent": Origin("request", "measured", "by all workers"),
    "failed": Origin("request", "measured", "answered with an error, or not at all"),
    "broken_off": Origin("request", "measured", "ended by us"),
    "unsent": Origin("request", "measured", "of the plan, never sent"),
    "begin_s": Origin("s", "measured", "from the start"),
    "end_s": Origin("s", "measured", "from the start"),
    "window.requests": Origin("request", "measured", "due in it"),
    "goodput.requests": Origin("request", "measured", "held against the limits"),
    "limits.ttft_s": Origin("s", "assumed", _STATED),
    "limits.tpot_s": Origin("s", "assumed", _STATED),
    "limits.part": Origin("1", "assumed", "of the requests that must meet them, as stated"),
    "nearness.ttft": Origin("1", "measured", "what the wanted part of the requests needed, over the limit"),
    "nearness.tpot": Origin("1", "measured", "what the wanted part of the requests needed, over the limit"),
    "due": Origin("request", "measured", "due in it"),
    "in_flight": Origin("request", "measured", "at its end"),
    "moments.ttft_s": Origin("s", "measured", "median of requests due in it"),
    "moments.tpot_s": Origin("s", "measured", "median of requests due in it"),
    "tokens_out_per_s": Origin("token/s", "measured", "of answers, that came in it"),
    "number": Origin("1", "assumed", "of the trial"),
    "rate": Origin("request/s", "assumed", "that was tried"),
    "trials.requests": Origin("request", "measured", "sent at this rate"),
    "achieved": Origin("request/s", "measured", "answered in the window"),
    "found.held": Origin("request/s", "measured", "the highest rate that held the limits"),
    "found.broke": Origin("request/s", "measured", "the lowest rate that broke them"),
    "workers": Origin("1", "measured", "processes that sent"),
    "slip_p99_s": Origin("s", "measured", "sent so long after it was due, p99, of all workers"),
}

REASONS: dict[str, str] = NO_WORKER | {
    "zero": "each trial has a start of its own: see starts",
    "limits.ttft_s": "no limit was stated: --ttft",
    "limits.tpot_s": "no limit was stated: --tpot",
    "met_ttft": "no limit was stated: --ttft",
    "met_tpot": "no limit was stated: --tpot",
    "moments.ttft_s": "no request that was due then was answered",
    "moments.tpot_s": "no request that was due then had an answer of more than one token",
    "tokens_out_per_s": "the tokens that came then were not counted",
    "rates.tokens_in": "not every prompt was counted",
    "rates.tokens_out": "not every answer was counted",
    "slip_p99_s": "nothing was due at a certain time, or nothing was sent",
    "found.held": "no rate that was tried held the limits",
    "found.broke": "no rate that was tried broke the limits",
}
