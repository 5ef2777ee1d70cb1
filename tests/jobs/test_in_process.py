"""``judged``: MFU and MBU of timed passes, against the design's reference case."""

from __future__ import annotations

import pytest

from phasewise import judged
from phasewise.errors import UsageError
from phasewise.mark.profiled import Profile, Timed
from phasewise.model.catalogue import find


def llama(prefill: float, decode: float, batch: int = 1, **changes: object) -> Profile:
    """Llama 3 8B that takes so many seconds for 2,000 tokens in, and for a step at 2,000 tokens of context."""
    row = find("llama-3-8b")
    assert row is not None
    profile = Profile(
        prefill=Timed(batch, 2000, 0.0, (prefill,) * 9),
        decode=Timed(batch, 1, 2000.0, (decode,) * 9),
        config=dict(row.config),
        dtype="bfloat16",
        device="cuda:0",
    )
    return profile._replace(**changes)  # type: ignore[arg-type]


def test_the_reference_case() -> None:
    """Counted: 29.3 ms of math and 4.56 ms of reading on an H100; twice as long is half of it."""
    found = judged(llama(0.0586, 0.00912), on="h100-sxm")
    assert found.prefill.mfu is not None
    assert found.decode.mbu is not None
    assert found.prefill.floor is not None
    assert found.decode.floor is not None
    assert found.prefill.mfu.value == pytest.approx(0.5, rel=0.01)
    assert found.decode.mbu.value == pytest.approx(0.5, rel=0.01)
    # A little over the math alone: some of its operations wait for memory.
    assert found.prefill.floor.value == pytest.approx(0.0293, rel=0.02)
    assert found.decode.floor.value == pytest.approx(0.00456, rel=0.01)
    assert (found.why_null, found.machine) == ("", "h100-sxm")
    assert (found.prefill.mfu.provenance, found.prefill.floor.provenance) == ("measured", "predicted")


def test_a_batch_shares_the_reading_of_the_weights() -> None:
    """64 requests at 2,000 tokens each: 9.49 ms counted."""
    found = judged(llama(1.0, 0.00949, batch=64), on="h100-sxm")
    assert found.decode.mbu is not None
    assert found.decode.mbu.value == pytest.approx(1.0, rel=0.01)


def test_the_words() -> None:
    told = str(judged(llama(0.0586, 0.00912), on="h100-sxm"))
    assert told.splitlines()[0].startswith("prefill: 58.6 ms (58.6 ms to 58.6 ms), at least 29.")
    assert "MBU 50" in told.splitlines()[1]


@pytest.mark.parametrize("change", [{"config": {}}, {"dtype": "float64"}])
def test_what_is_not_known_is_null_with_the_reason(change: dict[str, object]) -> None:
    found = judged(llama(0.0586, 0.00912, **change), on="h100-sxm")
    assert (found.prefill.mfu, found.decode.mbu, found.prefill.floor) == (None, None, None)
    assert found.prefill.step.value == 0.0586
    assert found.why_null.startswith("no MFU or MBU")
    assert str(found).endswith(found.why_null)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UsageError):
        judged(llama(1.0, 1.0), on="h9000")
    with pytest.raises(UsageError):
        judged(llama(1.0, 1.0, config={"model_type": "no_such"}), on="h100-sxm")


def test_thousands_of_passes() -> None:
    found = judged(llama(0.05, 0.01)._replace(decode=Timed(1, 1, 2000.0, (0.01, 0.0101) * 2000)), on="h100-sxm")
    low, high = found.decode.step.low, found.decode.step.high
    assert low is not None
    assert high is not None
    assert 0.01 <= low <= found.decode.step.value <= high <= 0.0101
