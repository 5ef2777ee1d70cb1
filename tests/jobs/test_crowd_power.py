"""Rows of a sweep and a load as what power is joined to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from phasewise.engines.exchange import Arrivals
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.parts import Parts
from phasewise.isolate.ledger.schema import PARTS, Frame, RequestRow, chunks
from phasewise.jobs.crowd_power import of_load, of_sweep
from phasewise.judge.power.windows import Span
from phasewise.record.sweep import Cell, Surface, Swept

ZERO = 500.0


def row(request: int, sent: float, ttft: float | None, last: float | None, answer: int, **more: object) -> RequestRow:
    given: dict[str, object] = {
        "trial": 0,
        "request": request,
        "phase": None,
        "worker": 0,
        "user": None,
        "due_s": sent,
        "connect_s": 0.0,
        "sent_s": sent,
        "ttft_s": ttft,
        "answer_ttft_s": ttft,
        "tpot_s": None,
        "last_token_s": last,
        "ended_s": last,
        "prompt_tokens_planned": 32,
        "answer_tokens_planned": answer,
        "prompt_tokens": 32,
        "completion_tokens": answer,
        "cached_tokens": None,
        "first_read_tokens": 1,
        "status": 200,
        "finish_reason": "length",
        "error": None,
        "streamed": True,
        "stamped": True,
        "received_bytes": 100,
    } | more
    return RequestRow(**given)  # type: ignore[arg-type]


def events(*at: float, tokens: int = -1) -> Arrivals:
    """Reads of one event each; ``tokens`` -1 where the server does not say."""
    return Arrivals(
        at=np.array([round(1e9 * (ZERO + moment)) for moment in at]),
        read=np.arange(len(at), dtype=np.int32),
        tokens=np.full(len(at), tokens, np.int32),
        kind=np.ones(len(at), np.uint8),
    )


def kept(folder: Path, requests: Sequence[RequestRow], came: dict[int, Arrivals], trial: int = 0) -> None:
    (folder / PARTS).mkdir(exist_ok=True)
    parts = Parts(folder / PARTS, f"trial{trial}")
    taken = list(came.items())
    parts.add(Frame(requests=list(requests), chunks=[chunks(taken, trial, 0, ZERO)] if taken else []))
    parts.write()


def swept(*cells: tuple[int, int, str]) -> Swept:
    made = tuple(
        Cell(
            batch=batch, prompt_tokens=prompt, context=100.0, step=None, throughput=None, samples=1, steps=9,
            together=batch, proof="passed", proved_by="", trouble=trouble,  # type: ignore[arg-type]
        )
        for batch, prompt, trouble in cells
    )  # fmt: skip
    surface = Surface(cells=made, plane=None, gains=(), limit=None, limit_by="", room=None, tokens_per_chunk=1.0)
    return Swept(plan=(), together=None, surface=surface if made else None, mix=None)


def span(found: Sequence[Span], phase: str) -> Span:
    (one,) = (span for span in found if span.phase == phase)
    return one


FIRST, PROMPT = row(1, 0.0, 0.1, 0.1, 1), row(2, 1.0, 0.5, 1.5, 1, prompt_tokens=None, prompt_tokens_planned=900)
# Two answers of ten tokens that came as five reads, whose tokens the server does not say: two in each.
PAIR = (row(3, 2.0, 0.5, 4.5, 10), row(4, 2.0, 0.6, 4.6, 10))
CAME = {3: events(2.5, 3.0, 3.5, 4.0, 4.5), 4: events(2.6, 3.1, 3.6, 4.1, 4.6)}


@pytest.mark.parametrize("merged", [False, True])
def test_a_sweep_s_rows_are_its_phases_on_one_clock(tmp_path: Path, merged: bool) -> None:
    kept(tmp_path, [FIRST, PROMPT, *PAIR], CAME)
    if merged:
        table.merge(tmp_path)
    joined = of_sweep(tmp_path, ZERO, swept((2, 32, "")))
    prefill, decode = span(joined.spans, "prefill"), span(joined.spans, "decode")
    assert (prefill.begin, prefill.end, prefill.tokens) == (ZERO + 1.0, ZERO + 1.5, 900)
    assert (decode.begin, decode.end) == (pytest.approx(ZERO + 2.6), pytest.approx(ZERO + 4.5))
    # From 2.6 to 4.5 each makes two in 0.5 s.
    assert decode.tokens == round(2 * 2 * (4.5 - 2.6) / 0.5)
    assert (decode.requests, decode.cell) == (2, (2, 32))
    assert len(joined.busy) == 4


def test_a_batch_in_trouble_is_not_told(tmp_path: Path) -> None:
    kept(tmp_path, [FIRST, *PAIR], CAME)
    assert not of_sweep(tmp_path, ZERO, swept((2, 32, "preempted"))).spans
    assert not of_sweep(tmp_path, ZERO, swept()).spans


def test_no_rows_are_nothing(tmp_path: Path) -> None:
    assert not of_sweep(tmp_path, ZERO, swept((2, 32, ""))).spans
    assert not of_load(tmp_path, 0, {0: ZERO}).spans


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "requests.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(OSError, match="requests"):
        of_load(tmp_path, 0, {0: ZERO})


def test_of_a_load_only_decodes_ran_where_no_request_waits_for_its_first_token(tmp_path: Path) -> None:
    waiting = row(5, 3.2, None, 3.4, 10, completion_tokens=None, error="HTTP 503", cached_tokens=8)
    kept(tmp_path, [*PAIR, waiting], CAME)
    joined = of_load(tmp_path, 0, {0: ZERO})
    decode = [(one.begin - ZERO, one.end - ZERO, one.tokens) for one in joined.spans if one.phase == "decode"]
    # Both make two in 0.5 s; the first has ended at 4.5.
    assert decode == [
        (pytest.approx(2.6), pytest.approx(3.2), round(2 * 2 * 0.6 / 0.5)),
        (pytest.approx(3.4), pytest.approx(4.6), round(2 * (1.1 + 1.2) / 0.5)),
    ]
    mixed = [(one.begin - ZERO, one.end - ZERO, one.tokens) for one in joined.spans if one.phase == "mixed"]
    # The pair's prompts, the first tokens of both, 0.1 s of the first one's next; of the request that failed what no
    # cache had, and what the pair made meanwhile.
    assert mixed == [
        (pytest.approx(2.0), pytest.approx(2.6), 64 + 4),
        (pytest.approx(3.2), pytest.approx(3.4), 24 + round(2 * 2 * 0.2 / 0.5)),
    ]
    every = [one for one in joined.spans if one.phase == "all"]
    assert sum(one.tokens or 0 for one in every) == 2 * 42 + 24
    assert joined.answers == pytest.approx(20 / 108)


def test_requests_of_other_trials_only_kept_the_machine_busy(tmp_path: Path) -> None:
    kept(tmp_path, PAIR, CAME)
    kept(tmp_path, [row(3, 0.0, 0.1, 1.0, 10, trial=1)], {3: events(0.1, 1.0)}, trial=1)
    joined = of_load(tmp_path, 0, {0: ZERO, 1: ZERO + 10})
    assert {one.end for one in joined.spans if one.end > ZERO + 5} == set()
    assert (ZERO + 10.0, ZERO + 11.0) in joined.busy


def test_an_answer_in_one_piece_is_all_at_its_end_and_an_uncounted_one_leaves_no_count(tmp_path: Path) -> None:
    piece = row(6, 5.0, 0.5, 5.5, 10)
    kept(tmp_path, [*PAIR, piece], CAME)
    joined = of_load(tmp_path, 0, {0: ZERO})
    last = max((one for one in joined.spans if one.phase == "mixed"), key=lambda one: one.begin)
    assert last.tokens == 32 + 10
    uncounted = tmp_path / "uncounted"
    uncounted.mkdir()
    kept(uncounted, [*PAIR, row(6, 5.0, 0.5, 5.5, 10, completion_tokens=None)], CAME)
    assert {one.tokens for one in of_load(uncounted, 0, {0: ZERO}).spans if one.phase != "all"} == {None}
