"""Sentences from probes made by hand: each mechanism is named, and a clean server hears of its throughput only."""

from __future__ import annotations

import msgspec
import pytest

from phasewise.judge import notes
from phasewise.record.probes import Burst, OptionCost, Probes, TtftParts
from phasewise.record.quantity import Quantity, measured, reported


def seconds(value: float, width: float = 0.0) -> Quantity:
    return measured(value, "s", "by hand", value - width, value + width)


def burst(requests: int, step: float, **more: object) -> Burst:
    """A burst that runs in lock step, with the throughput that its step gives."""
    rate = measured(requests / step, "token/s", "by hand")
    plain = Burst(
        requests=requests,
        ttft_first=0.010,
        ttft_last=0.012,
        together=requests,
        step=seconds(step),
        throughput=rate,
        tokens_per_chunk=1.0,
        spread=1e-5,
    )
    return msgspec.structs.replace(plain, **more)


CLEAN = (burst(1, 0.005), burst(4, 0.0051), burst(8, 0.0052))
PARTS = TtftParts(
    tokens=1000,
    ttft=seconds(0.050),
    client=seconds(0.0),
    connection=seconds(0.0003),
    kept=seconds(0.0001),
    front_end=seconds(0.001),
    queue=reported(0.0, "s", "queue_time_ms"),
    idle_s=1.5,
    idle=seconds(0.0002),
)


def decode(*bursts: Burst, options: tuple[OptionCost, ...] = ()) -> str:
    return "\n".join(notes.of_decode(Probes(bursts=bursts, options=options)))


def prefill(parts: TtftParts | None = PARTS, bursts: tuple[Burst, ...] = CLEAN) -> str:
    return "\n".join(notes.of_prefill(Probes(ttft=parts, bursts=bursts)))


def test_a_clean_server_hears_of_its_throughput_only() -> None:
    assert prefill() == ""
    said = decode(*CLEAN)
    assert "8 short requests at once made 1,538 tokens/s, 7.7 times one alone" in said
    assert "a figure at batch 1 is not the server's throughput" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"front_end": seconds(0.030)}, "text instead of token ids"),
        ({"idle": seconds(0.030)}, "a pause of 1.50 s before the request adds 30.0 ms"),
        ({"kept": seconds(0.040)}, "the kept connection"),
        ({"queue": reported(0.040, "s", "queue_time_ms")}, "the server's queue takes, as it reports, 40.0 ms"),
        ({"client": seconds(0.020)}, "the client's own queue takes 20.0 ms"),
    ],
)
def test_a_part_that_dominates_is_named(part: dict[str, Quantity], says: str) -> None:
    said = prefill(msgspec.structs.replace(PARTS, **part))
    assert says in said
    assert "50.0 ms at 1,000 tokens" in said


def test_a_part_within_the_scatter_is_not_named() -> None:
    assert prefill(msgspec.structs.replace(PARTS, idle=seconds(0.030, width=0.025))) == ""


def test_slots_and_a_queue_of_prefills() -> None:
    slots = (*CLEAN[:2], burst(8, 0.005, together=4, ttft_last=0.2))
    assert "8 short requests sent together 4 ran at once" in prefill(bursts=slots)
    in_turn = (*CLEAN[:2], burst(8, 0.005, ttft_last=0.080))
    assert "prefilled in turn" in prefill(bursts=in_turn)
    # A burst whose second pass holds all but the first is no queue.
    assert prefill(bursts=(*CLEAN[:2], burst(8, 0.005, ttft_last=0.035))) == ""


def test_why_a_batch_gains_little() -> None:
    assert "each request adds to the step" in decode(burst(1, 0.005), burst(4, 0.020), burst(8, 0.040))
    assert "jumps beyond 4 requests" in decode(burst(1, 0.005), burst(4, 0.0051), burst(8, 0.020))
    drafts = [burst(n, step, tokens_per_chunk=3.0) for n, step in ((1, 0.005), (4, 0.020), (8, 0.040))]
    assert "verifying drafts" in decode(*drafts)
    off = (drafts[0], burst(4, 0.0051, tokens_per_chunk=3.0), burst(8, 0.030))
    said = decode(*off)
    assert "drafts are switched off (3.0 tokens per step alone, 1.0 with the others)" in said
    assert "jumps beyond 4" in said


def test_tokens_that_are_written_in_turn() -> None:
    assert "written one after the other" in decode(*CLEAN[:2], burst(8, 0.0052, spread=0.003))
    assert "written" not in decode(*CLEAN[:2], burst(8, 0.0052, spread=0.0004))


def test_options_that_cost() -> None:
    def option(tpot: Quantity | None, refused: str = "") -> OptionCost:
        return OptionCost(name="logprobs", plain=seconds(0.005), tpot=tpot, refused=refused)

    said = decode(options=(option(seconds(0.008)),))
    assert "logprobs adds 3.00 ms per token, 60% of a greedy step" in said
    assert decode(options=(option(seconds(0.0052)),)) == ""
    assert decode(options=(option(None, "HTTP 400"),)) == ""


def test_what_no_setting_improves() -> None:
    (said,) = notes.at_ceiling(measured(0.93, "1", "x"), "mfu")
    assert "93% MFU is as fast as this machine gets" in said
    assert list(notes.at_ceiling(measured(0.6, "1", "x"), "mfu")) == []
    assert list(notes.at_ceiling(measured(1.2, "1", "x"), "mfu")) == []
    assert list(notes.at_ceiling(None, "mfu")) == []


def test_nothing_is_said_without_probes() -> None:
    assert list(notes.of_prefill(None)) == []
    assert list(notes.of_decode(None)) == []
    assert list(notes.of_decode(Probes(bursts=CLEAN[:1]))) == []
