"""The logs job: time against arithmetic that shares no code with the product, and who owns it on public traces."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from phasewise.errors import UsageError
from phasewise.jobs.logs import Done, logs
from phasewise.jobs.subject import Subject

SHARED = Path(__file__).parents[3] / "shared" / "data" / "requests"
LLAMA_2_70B = Subject(model="llama-2-70b", on="h100-sxm", devices=8)
LLAMA_3_8B = Subject(model="llama-3-8b", on="h100-sxm")


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip("skipped: no shared data")
    return SHARED / name


def run(*files: Path, subject: Subject = LLAMA_3_8B, batch: int = 32) -> Done:
    return logs(files, subject, batch=batch, progress=lambda doing, fraction: None)


def log(path: Path, *rows: tuple[float, int, int]) -> Path:
    path.write_text("time,prompt_tokens,answer_tokens\n" + "".join(f"{t},{p},{a}\n" for t, p, a in rows))
    return path


@pytest.mark.parametrize(
    ("trace", "owner"),
    [("azure/AzureLLMInferenceTrace_code.csv", "prefill"), ("azure/AzureLLMInferenceTrace_conv.csv", "decode")],
)
def test_azure_on_eight_h100(trace: str, owner: str) -> None:
    # Splitwise (Patel et al. 2024): code is prompts, conversation is answers; alone, decode owns both.
    found = run(shared(trace), subject=LLAMA_2_70B).logs
    stated, alone = found.at(32), found.at(1)
    assert stated is not None
    assert alone is not None
    assert (stated.owner, alone.owner) == (owner, "decode")
    assert found.bounds == {"prefill": "compute", "decode": "memory"}
    assert found.files[0].demand == stated


def rows(seed: int) -> list[tuple[float, int, int]]:
    return [(i * 0.5, 300 + 37 * ((i * seed) % 61), (i * 13) % 90) for i in range(200)]


@pytest.mark.parametrize("batch", [1, 32, 50])
def test_time_against_hand_arithmetic(tmp_path: Path, batch: int) -> None:
    """Llama 3 8B in bf16 on an H100: 989 TFLOP/s, 3.35 TB/s, formulas of the reference case in the design."""
    requests = rows(7)
    found = run(log(tmp_path / "log.csv", *requests), batch=batch).logs.at(batch)
    assert found is not None
    layers, width, vocabulary = 32, 4096, 128_256
    in_layers = layers * (2 * width * width + 2 * width * 1024 + 3 * width * 14_336)
    weights = 2 * (in_layers + vocabulary * width)  # bytes that a step reads: no embedding, the norms left out
    flops = [2 * in_layers * p + 2 * layers * width * p * p for _, p, _ in requests]
    head = 2 * vocabulary * width / 3.35e12  # one position: reading it is slower than its math
    kv = 131_072  # bytes per token
    assert found.prefill.value == pytest.approx(sum(f / 989e12 + head for f in flops), rel=2e-3)
    # A step of B requests reads the weights once and each request's cache: per request weights/B + cache.
    steps = [p + k for _, p, a in requests for k in range(1, a)]
    assert found.decode.value == pytest.approx(sum(weights / batch + kv * c for c in steps) / 3.35e12, rel=2e-3)
    assert found.prefill_share + found.decode_share == pytest.approx(1)
    assert found.machines is not None
    assert found.machines.value == pytest.approx((found.prefill.value + found.decode.value) / 99.5)


def test_decode_time_falls_with_the_batch_and_prefill_stays(tmp_path: Path) -> None:
    found = run(log(tmp_path / "log.csv", *rows(5)), batch=16).logs
    assert [demand.batch for demand in found.demands] == [1, 8, 16, 32, 128]
    decode = [demand.decode.value for demand in found.demands]
    assert decode == sorted(decode, reverse=True)
    assert len(set(decode)) == len(decode)
    assert len({demand.prefill.value for demand in found.demands}) == 1


def test_several_files_are_one_log(tmp_path: Path) -> None:
    one, other = log(tmp_path / "a.csv", *rows(3)), log(tmp_path / "b.csv", *rows(11))
    whole = log(tmp_path / "c.csv", *rows(3), *rows(11))
    both, at_once = run(one, other).logs, run(whole).logs
    assert both.requests == at_once.requests == 400
    assert (both.prompt, both.answer) == (at_once.prompt, at_once.answer)
    assert both.demands[0].decode.value == pytest.approx(at_once.demands[0].decode.value)
    assert sum(file.prompt_tokens.value for file in both.files) == both.prompt.tokens.value
    assert sum(file.demand.prefill.value for file in both.files if file.demand) == pytest.approx(
        at_once.demands[0].prefill.value
    )
    # Numbers of seconds may start anywhere, so two files have no common span; one has.
    assert both.span is None
    assert "zero may differ" in both.missing["span"]
    assert at_once.span is not None
    assert [file.span.value for file in both.files if file.span] == [99.5, 99.5]


def test_dated_files_have_one_span(tmp_path: Path) -> None:
    for day in (16, 17):
        (tmp_path / f"{day}.csv").write_text(
            f"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-{day} 00:00:00,5,5\n2023-11-{day} 06:00:00,5,5\n"
        )
    found = run(tmp_path / "17.csv", tmp_path / "16.csv").logs
    assert found.span is not None
    assert found.span.value == 30 * 3600
    assert found.rates is not None
    assert found.rates.requests_per_s == 4 / (30 * 3600)


def test_lengths_ratio_and_what_the_context_cannot_hold(tmp_path: Path) -> None:
    found = run(log(tmp_path / "log.csv", (0, 8190, 10), (1, 100, 0), (2, 0, 100), (3, 9000, 90))).logs
    assert (found.prompt.p50, found.prompt.p90, found.prompt.longest, found.prompt.none) == (100, 9000, 9000, 1)
    assert (found.answer.p50, found.answer.p99, found.answer.longest, found.answer.none) == (10, 100, 100, 1)
    assert found.tokens_in_per_token_out == 17_290 / 200
    assert found.beyond is not None
    assert found.beyond.max_context == 8192
    assert found.beyond.tokens.value == 8 + 808 + 90


def test_without_a_model_or_a_machine_there_are_tokens_but_no_time(tmp_path: Path) -> None:
    path = log(tmp_path / "log.csv", *rows(3))
    for subject, reason in (
        (Subject(), "no model is named"),
        (Subject(model="llama-3-8b"), "no accelerator is named"),
        (Subject(on="h100-sxm"), "no model is named"),
    ):
        found = run(path, subject=subject).logs
        assert found.prompt.tokens.value == sum(p for _, p, _ in rows(3))
        assert (found.demands, found.bounds, found.files[0].demand) == ((), {}, None)
        assert reason in found.missing["demands"]


def test_stated_ceilings_stand_for_an_accelerator(tmp_path: Path) -> None:
    stated = Subject(model="llama-3-8b", peak="989TFLOP/s", bandwidth="3.35TB/s")
    path = log(tmp_path / "log.csv", *rows(3))
    assert run(path, subject=stated).logs.demands[0].decode.value == pytest.approx(
        run(path).logs.demands[0].decode.value
    )


def test_a_log_of_one_moment_has_no_rates(tmp_path: Path) -> None:
    found = run(log(tmp_path / "log.csv", (5, 10, 10), (5, 10, 10))).logs
    assert found.rates is None
    assert found.missing["rates"] == "all requests have one time"
    assert found.demands[0].machines is None


def test_the_model_is_looked_up_before_a_large_log_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="llama-9"):
        run(tmp_path / "not there.csv", subject=Subject(model="llama-9"))


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time,prompt_tokens,answer_tokens\n" + "".join(f"{i},{i % 997},{i % 89}\n" for i in range(10**6)))
    run(log(tmp_path / "small.csv", *rows(3)))  # what is loaded once is not counted
    tracemalloc.start()
    try:
        found = run(path)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.logs.requests == 10**6
    # Three columns of a million numbers are 24 MB; what a block of 4 MiB takes does not depend on how many there are.
    assert held < 5e6
    assert peak < 150e6
