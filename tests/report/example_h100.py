"""Llama 3 8B in BF16 behind vLLM on one H100 SXM, as the other stages would hand it on.

Figures are worked out on paper from the datasheet and the counted work, not by the product.
"""

from __future__ import annotations

import msgspec
from example_parts import ALONE, CLEAN, about, fix_of, parts, sheet, used

from phasewise.record.envelope import Envelope
from phasewise.record.judgement import CurvePoint, Judgement, PhaseVerdict, Split, Utilisation, Verdict
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.model import ModelFacts
from phasewise.record.observation import (
    DecodeFit,
    DecodeObservation,
    DecodePoint,
    Observation,
    PrefillFit,
    PrefillObservation,
    PrefillPoint,
)
from phasewise.record.prediction import (
    BatchRow,
    Formula,
    LengthRow,
    Napkin,
    Prediction,
    RequestPrediction,
    StepPrediction,
)
from phasewise.record.quantity import Quantity, assumed, predicted
from phasewise.record.remedies import Rejected, Remedies, Remedy
from phasewise.record.run import Run
from phasewise.record.target import Capability, Reported, Target

_PEAK, _READ = sheet(989e12, "FLOP/s"), sheet(3.35e12, "B/s")
_ROUND = assumed(1000e12, "FLOP/s", "--peak")
_LENGTHS = ((128, 5.85), (512, 14.19), (1024, 25.54), (2000, 47.90), (4096, 99.14), (8192, 211.96))
_FLOORS = (
    (128, 4.4856, "memory", 0.0024),
    (512, 7.6097, "compute", 0.0095),
    (1024, 15.0448, "compute", 0.0189),
    (2000, 29.6027, "compute", 0.0362),
    (4096, 62.5733, "compute", 0.0714),
    (8192, 133.7269, "compute", 0.1333),
    (32000, 723.3968, "compute", 0.3754),
)
_MFU = (0.3098, 0.5142, 0.5768, 0.6115, 0.6280, 0.6294)
_MBU = (0.7668, 0.3172, 0.1770, 0.0952, 0.0468, 0.0227)
_CONTEXTS = ((160, 5.941), (640, 5.975), (2150, 6.081), (4224, 6.226))
_DECODE_MBU = (0.7552, 0.7540, 0.7507, 0.7460)


def _h100_prediction() -> Prediction:
    pre = StepPrediction(
        tokens=2000,
        batch=1,
        flops=28.967979e12,
        weight_bytes=15.009849e9,
        kv_bytes=0.262144e9,
        bytes=15.271993e9,
        compute_s=29.29017e-3,
        memory_s=4.558804e-3,
        time_s=29.602742e-3,
        bound="compute",
        attention_share=0.0362,
        napkin=Napkin(flops=32.121e12, bytes=16.060522e9, compute_s=32.4783e-3, memory_s=4.79419e-3, bound="compute"),
    )
    dec = StepPrediction(
        tokens=2000,
        batch=1,
        flops=16.058425e9,
        weight_bytes=15.009849e9,
        kv_bytes=0.262144e9,
        bytes=15.271993e9,
        compute_s=16.237e-6,
        memory_s=4.558804e-3,
        time_s=4.558804e-3,
        bound="memory",
        attention_share=0.0653,
        napkin=Napkin(flops=16.0605e9, bytes=16.322667e9, compute_s=16.239e-6, memory_s=4.87244e-3, bound="memory"),
    )
    batch = (
        (1, 4.558804, 1.0, 4.87244, 1.0),
        (8, 5.106568, 7.1419, 5.42020, 7.1915),
        (64, 9.488676, 30.7486, 9.80231, 31.812),
    )
    return Prediction(
        basis="datasheet",
        dtype="bf16",
        peak_flops=989e12,
        bandwidth=3.35e12,
        prefill=pre,
        decode=dec,
        request=RequestPrediction(
            prompt_tokens=2000,
            answer_tokens=300,
            ttft_s=29.602742e-3,
            tpot_s=4.564673e-3,
            total_s=1.394440,
            decode_share=0.97877,
        ),
        ridge_tokens=295.2,
        attention_crossover_tokens=53250.0,
        batch=tuple(
            BatchRow(batch=b, step_s=s / 1e3, throughput_gain=g, napkin_step_s=n / 1e3, napkin_throughput_gain=m)
            for b, s, g, n, m in batch
        ),
        lengths=tuple(
            LengthRow(tokens=n, time_s=ms / 1e3, bound=bound, attention_share=share)  # type: ignore[arg-type]
            for n, ms, bound, share in _FLOORS
        ),
        prefill_batch={"1": 1.0, "2": 1.99, "4": 3.97},
        formulas=(
            Formula(
                name="KV bytes per token",
                formula="layers × KV heads × head_dim × 2 (K and V) × bytes per element",
                numbers="32 layers × 8 heads × 128 × 2 × 2 B",
                result="131,072 B",
            ),
            Formula(
                name="napkin prefill, math",
                formula="2 · P · N / peak",
                numbers="2 × 8.03e9 × 2,000 / 989 TFLOP/s",
                result="32.5 ms",
            ),
        ),
    )


def _h100_observation() -> Observation:
    fit = PrefillFit(
        overhead=about(3.1e-3, "s", "fit of TTFT over 6 lengths", 0.06),
        per_token=about(21.4e-6, "s/token", "fit of TTFT over 6 lengths"),
        per_token2=about(0.5e-9, "s/token^2", "fit of TTFT over 6 lengths", 0.08),
        residual=0.004,
    )
    line = DecodeFit(
        at_zero=about(5.93e-3, "s", "fit of step time over 4 contexts", 0.003),
        per_context_token=about(70e-9, "s/token", "fit of step time over 4 contexts", 0.09),
        residual=0.001,
    )
    lengths = tuple(
        PrefillPoint(tokens=n, ttft=about(ms / 1e3, "s", "median of 7 requests"), best=ms * 0.99e-3, samples=7)
        for n, ms in _LENGTHS
    )
    contexts = tuple(
        DecodePoint(
            context=c,
            prompt_tokens=c - 128,
            generated=256,
            tpot=about(ms / 1e3, "s", "median of 4 requests", 0.004),
            samples=4,
        )
        for c, ms in _CONTEXTS
    )
    return Observation(
        prefill=PrefillObservation(points=lengths, fit=fit),
        decode=DecodeObservation(
            points=contexts, fit=line, tpot=contexts[0].tpot, tpot_context=160, tokens_per_chunk=1.0
        ),
        checks=(*CLEAN, ALONE),
        requests=74,
        prompt_tokens=152_340,
        output_tokens=4_138,
        stopped="the intervals are tight",
    )


def _h100_judgement() -> Judgement:
    prefill_used = [
        used("mfu", "datasheet", "whole", 2000, 0.6115, _PEAK),
        used("mbu", "datasheet", "whole", 2000, 0.0952, _READ),
    ]
    for (n, _), mfu, mbu in zip(_LENGTHS, _MFU, _MBU, strict=True):
        prefill_used += [
            used("mfu", "datasheet", "whole", n, mfu, _PEAK),
            used("mbu", "datasheet", "whole", n, mbu, _READ),
        ]
    prefill_used += [
        used("mfu", "datasheet", "slope", 2000, 0.6385, _PEAK),
        used("mfu", "stated", "whole", 2000, 0.6048, _ROUND),
        used("mbu", "stated", "whole", 2000, 0.0952, _READ),
    ]
    decode_used: list[Utilisation] = []
    for (c, _), mbu in zip(_CONTEXTS, _DECODE_MBU, strict=True):
        decode_used += [
            used("mfu", "datasheet", "whole", c, 0.00257, _PEAK),
            used("mbu", "datasheet", "whole", c, mbu, _READ),
        ]
    decode_used += [
        used("mbu", "datasheet", "slope", 2150, 0.559, _READ),
        used("mfu", "stated", "whole", 160, 0.00254, _ROUND),
        used("mbu", "stated", "whole", 160, 0.7552, _READ),
    ]
    prefill = PhaseVerdict(
        phase="prefill",
        yardstick="mfu",
        headline=prefill_used[0].value,
        why_null="",
        at_tokens=2000,
        step=about(47.9e-3, "s", "fit of TTFT at 2,000 tokens"),
        floor=predicted(29.6027e-3, "s", "compute floor"),
        bound="compute",
        shares=parts(47.9e-3, ("compute", 29.6027e-3), ("kernel", 15.1973e-3), ("overhead", 3.1e-3)),
        utilisations=tuple(prefill_used),
        curve=tuple(CurvePoint(tokens=n, fit_s=None, floor_s=ms / 1e3) for n, ms, _, _ in _FLOORS),
    )
    decode = PhaseVerdict(
        phase="decode",
        yardstick="mbu",
        headline=decode_used[1].value,
        why_null="",
        at_tokens=2150,
        step=about(6.081e-3, "s", "fit of step time at 2,150 tokens of context", 0.004),
        floor=predicted(4.5647e-3, "s", "memory floor"),
        bound="memory",
        shares=parts(6.081e-3, ("memory", 4.5647e-3), ("overhead", 1.1e-3), ("kernel", 0.4163e-3)),
        utilisations=tuple(decode_used),
        curve=tuple(
            CurvePoint(tokens=c, fit_s=None, floor_s=(15.009849e9 + 131072 * c) / 3.35e12) for c, _ in _CONTEXTS
        ),
        notes=("0.26% MFU is normal for decode at batch 1: it waits for bytes, not for math",),
    )
    split = Split(
        prompt_tokens=2000,
        answer_tokens=300,
        weight=1.0,
        ttft=about(47.9e-3, "s", "fit of TTFT"),
        decode=about(1.81822, "s", "299 decode steps at growing context", 0.004),
        total=about(1.86612, "s", "TTFT and decode steps", 0.005),
        prefill_share=0.02567,
        decode_share=0.97433,
        owner="decode",
        ttft_owner="compute",
    )
    text = "Decode owns 97% of a 2,000-in/300-out request (1.87 s) and is memory-bound: 75% of its step, 75.5% MBU."
    return Judgement(
        prefill=prefill,
        decode=decode,
        splits=(split,),
        prefill_share=0.02567,
        decode_share=0.97433,
        verdict=Verdict(owner="decode", bound="memory", text=text),
    )


def _h100_remedies() -> Remedies:
    def fix(name: str, phase: str, saves: float, before: float, after: float, why: str, verify: str) -> Remedy:
        return fix_of(name, phase, saves, before, after, why, verify, 1.86612)

    again = "phasewise profile http://127.0.0.1:8000 --weights"
    return Remedies(
        fixes=(
            fix(
                "4-bit weights",
                "decode",
                0.9538,
                6.081e-3,
                2.891e-3,
                "75.1% of the step reads weights, and 4-bit weights are 27% of the bytes",
                f"{again} int4",
            ),
            fix(
                "speculative decoding",
                "decode",
                0.8312,
                6.081e-3,
                3.301e-3,
                "a verify step reads the weights once for several tokens",
                "vllm serve with a draft model, then the same profile",
            ),
            fix(
                "CUDA graphs",
                "decode",
                0.2631,
                6.081e-3,
                5.201e-3,
                "18.1% of the step is overhead",
                "vllm serve without --enforce-eager",
            ),
            fix(
                "FP8 matmuls",
                "prefill",
                0.0140,
                47.9e-3,
                33.9e-3,
                "61.8% of the step is math, and the FP8 peak is twice the BF16 peak",
                f"{again} fp8",
            ),
            msgspec.structs.replace(
                fix(
                    "bigger batches (32)",
                    "decode",
                    1.7,
                    5.69e-3,
                    273e-6,
                    "one read of the weights serves the whole batch",
                    "run 32 requests at once",
                ),
                buys="throughput",
            ),
        ),
        rejected=(
            Rejected(
                name="FP8 KV cache",
                phase="decode",
                reason="the KV cache is 1.8% of the bytes at 2,150 tokens of context",
            ),
            Rejected(
                name="fast attention kernel", phase="prefill", reason="attention is 3.6% of the FLOPs at 2,000 tokens"
            ),
            Rejected(
                name="4-bit weights",
                phase="prefill",
                reason="prefill waits for math, and a weight-only format leaves the math as it is",
            ),
        ),
    )


def h100() -> Run:
    """Complete: both phases, datasheet and stated ceilings, fixes, checks."""
    return Run(
        envelope=Envelope(
            id="20261129T193000Z-http-127.0.0.1-8000",
            command="profile",
            arguments=("http://127.0.0.1:8000", "--on", "h100-sxm", "--peak", "1000TFLOPS"),
            created="2026-11-29T19:30:00Z",
            duration_s=71.4,
            status="complete",
            versions={"phasewise": "0.1.0", "python": "3.11.7"},
            host="Linux x86-64, 2 cores",
        ),
        target=Target(
            name="http://127.0.0.1:8000",
            engine="vLLM",
            served_model="meta-llama/Meta-Llama-3-8B",
            prompting="token_ids",
            endpoint="/v1/completions",
            max_context=8448,
            capabilities=(
                Capability(name="usage_in_stream", present=True, detail="stream_options.include_usage"),
                Capability(name="cached_tokens", present=True, detail="usage.prompt_tokens_details"),
                Capability(name="metrics", present=False, detail="/metrics answers 404"),
            ),
            reported=(
                Reported(key="model", value="meta-llama/Meta-Llama-3-8B", where="/v1/models"),
                Reported(key="version", value="0.33.0", where="/version"),
            ),
        ),
        model=ModelFacts(
            name="llama-3-8b",
            source="catalogue: config.json of meta-llama/Meta-Llama-3-8B",
            parameters=8_030_261_248,
            active_parameters=8_030_261_248,
            embedding_parameters=525_336_576,
            weight_bytes=Quantity(value=16.060522e9, unit="B", provenance="datasheet", source="weights in bf16"),
            kv_bytes_per_token=predicted(131_072, "B", "KV cache in bf16"),
            layers=32,
            max_context=8192,
            weights_format="bf16",
            kv_format="bf16",
            compute_dtype="bf16",
        ),
        machine=Machine(
            name="h100-sxm",
            kind="gpu",
            memory_bytes=sheet(80e9, "B"),
            power_limit_w=sheet(700.0, "W"),
            ceilings=(
                Ceilings(
                    basis="datasheet",
                    compute={"bf16": _PEAK, "fp8": sheet(1979e12, "FLOP/s")},
                    bandwidth=_READ,
                    how="catalogue row h100-sxm, confidence seen",
                ),
                Ceilings(basis="stated", compute={"bf16": _ROUND}, bandwidth=_READ, how="--peak 1000TFLOPS"),
            ),
        ),
        prediction=_h100_prediction(),
        observation=_h100_observation(),
        judgement=_h100_judgement(),
        remedies=_h100_remedies(),
    )
