"""What options of a request cost per token: sampling, log probabilities, a grammar. The profile itself is greedy."""

from __future__ import annotations

from typing import Any

from phasewise.engines.exchange import Exchange
from phasewise.isolate.probes.asking import Asking, Skipped, answered
from phasewise.record.probes import OptionCost
from phasewise.record.quantity import Quantity, measured

ANSWER = 16
REPEATS = 3

_SAMPLING: dict[str, Any] = {"temperature": 1.0, "top_p": 0.9}
_JSON: dict[str, Any] = {"response_format": {"type": "json_object"}}


def measure(asking: Asking) -> tuple[OptionCost, ...]:
    """TPOT with each option beside TPOT without, in turns.

    Raises:
        Skipped: there is no time for it, or plain requests fail.
    """
    if not asking.engine.target.endpoint.endswith("completions"):
        raise Skipped("this API has other names for them")
    chat = asking.engine.target.prompting == "chat"
    logprobs: dict[str, Any] = {"logprobs": True, "top_logprobs": 5} if chat else {"logprobs": 5}
    ways: dict[str, dict[str, Any]] = {
        "": {},
        "top_p sampling": _SAMPLING,
        "logprobs": logprobs,
        "a JSON grammar": _JSON,
    }
    costs, answer = asking.session.costs, min(ANSWER, asking.room)
    if answer < 3:
        raise Skipped("the context holds no answer")
    if len(ways) * REPEATS * (costs.prefill(asking.short) + 1.5 * answer * costs.step(asking.short)) > asking.left():
        raise Skipped("the budget left no time for it")
    found: dict[str, list[Exchange]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, options in ways.items():
            found[name].append(asking.one(asking.prompt(asking.short), answer, options=options))
    plain = _tpot([answered(one) for one in found.pop("")], "greedy")
    if plain is None:
        raise Skipped("the time of a token could not be told")
    return tuple(
        OptionCost(name=name, plain=plain, tpot=_tpot(these, name), refused=these[0].error)
        for name, these in found.items()
    )


def _tpot(found: list[Exchange], name: str) -> Quantity | None:
    """The best of a few: nothing makes a short answer early, and much makes it late."""
    times = [one.tpot for one in found if not one.error and one.tpot]
    return measured(min(times), "s", f"best of {len(times)} answers, {name}", min(times), max(times)) if times else None
