"""``draft=4:0.7``: speculative decoding of 4 proposed tokens, each accepted with a chance of 0.7.

A third field says what a proposed token costs: a fraction of a plain step, or the model that proposes it.
"""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.model.load import load
from phasewise.predict.speculation import DRAFT_COST, Draft, break_even, gain, proposing, tokens_per_step, verify
from phasewise.predict.whatif.change import Change, Changed, Refused, fraction, whole
from phasewise.predict.whatif.setup import Setup
from phasewise.record.quantity import assumed, predicted
from phasewise.units import show

_EXAMPLE = "4:0.7"


def _apply(value: str, setup: Setup) -> Changed:
    if setup.draft is not None:
        raise Refused("there is a draft already")
    draft = _draft(value)
    changed = msgspec.structs.replace(setup, draft=draft)
    spread, context, batch = setup.spread, float(setup.prompt), float(setup.batch)
    plain = float(spread.decode(context, batch).time_s)
    checking = float(verify(spread, draft, context, batch).time_s)
    drafting = float(proposing(spread, draft, context, batch))
    yields = tokens_per_step(draft.tokens, draft.acceptance)
    most = break_even(spread, draft, context)
    pays = float(gain(spread, draft, context, batch)) > 1
    notes = (
        f"{yields:.3g} tokens a step; verifying {draft.tokens + 1} takes {show(checking, 's')} against "
        f"{show(plain, 's')} for one, proposing {show(drafting, 's')} ({_cost(draft)})",
        _until(most, setup.prompt) if pays else f"at batch {setup.batch} it does not pay; {_until(most, setup.prompt)}",
    )
    figures = {
        "tokens_per_step": predicted(yields, "1", "(1 − α^(k+1)) / (1 − α), arXiv 2211.17192"),
        "verify_s": predicted(checking, "s", f"a step of {draft.tokens + 1} tokens a request"),
        "draft_s": assumed(drafting, "s", _cost(draft)),
    }
    if most is not None:
        figures["break_even_batch"] = predicted(most, "1", "largest batch at which it pays, by search")
    return Changed(changed, notes, figures)


def _draft(value: str) -> Draft:
    fields = value.split(":", 2)
    if len(fields) < 2:
        raise UsageError(
            f"--what-if draft={value[:40]!r} is not proposed tokens and their acceptance: write draft={_EXAMPLE}."
        )
    tokens = whole("draft", fields[0], example=_EXAMPLE, most=1000)
    acceptance = fraction("draft", fields[1], example=_EXAMPLE)
    if len(fields) == 2:
        return Draft(tokens=tokens, acceptance=acceptance)
    try:
        cost = float(fields[2])
    except ValueError:
        return Draft(tokens=tokens, acceptance=acceptance, model=load(fields[2]))
    if not 0 <= cost <= 1:
        raise UsageError(f"--what-if draft={value[:40]!r}: a proposed token costs 0 to 1 of a step, not {fields[2]}.")
    return Draft(tokens=tokens, acceptance=acceptance, cost=cost)


def _cost(draft: Draft) -> str:
    if draft.model is not None:
        return f"{draft.tokens} decode steps of {draft.model.name} on one device"
    known = "assumed" if draft.cost == DRAFT_COST else "as stated"
    return f"{show(draft.cost, '1', 2)} of a step each, {known}"


def _until(most: int | None, context: int) -> str:
    if most is None:
        return f"it pays at every batch, because the KV cache of {context:,} tokens is read once for all"
    return f"it pays up to a batch of {most:,}" if most else "it pays at no batch"


DRAFT = Change("draft", _EXAMPLE, _apply)
