"""SmolLM2-135M in Q4_1 on two cores, ceilings measured; figures as seen on such a machine."""

from __future__ import annotations

from example_h100 import h100
from example_parts import CLEAN, about, change, fix_of, parts, used

from phasewise.record.judgement import Judgement, PhaseVerdict, Split, Verdict
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
    LengthRow,
)
from phasewise.record.quantity import measured, predicted
from phasewise.record.remedies import Rejected, Remedies
from phasewise.record.run import Run
from phasewise.record.target import Target


def cpu() -> Run:
    """Prefill owns the time, both phases are kernel-bound, ceilings are measured, and the mix holds two requests."""
    peak, read = (
        about(203e9, "FLOP/s", "matmul of random fp32, 2 threads", 0.03),
        about(33.8e9, "B/s", "reading 1 GiB, 2 threads", 0.04),
    )
    lengths = ((128, 0.449), (512, 1.843), (1024, 3.790), (2000, 7.712))
    contexts = ((160, 7.61e-3), (640, 8.28e-3), (1900, 10.05e-3))
    fit = PrefillFit(
        overhead=about(4.2e-3, "s", "fit of TTFT over 4 lengths", 0.4),
        per_token=about(3.46e-3, "s/token", "fit of TTFT over 4 lengths", 0.02),
        per_token2=about(197e-9, "s/token^2", "fit of TTFT over 4 lengths", 0.2),
        residual=0.006,
    )
    line = DecodeFit(
        at_zero=about(7.385e-3, "s", "fit of step time over 3 contexts", 0.02),
        per_context_token=about(1.402e-6, "s/token", "fit of step time over 3 contexts", 0.05),
        residual=0.004,
    )
    points = tuple(
        DecodePoint(
            context=c, prompt_tokens=c - 64, generated=128, tpot=about(s, "s", "median of 5 requests", 0.02), samples=5
        )
        for c, s in contexts
    )
    prefill_used = [
        used("mfu", "measured", "whole", 2000, 0.3597, peak),
        used("mbu", "measured", "whole", 2000, 0.00053, read),
    ]
    decode_used = [
        used("mfu", "measured", "whole", 160, 0.1773, peak),
        used("mbu", "measured", "whole", 160, 0.3755, read),
    ]
    decode_used += [
        used("mfu", "measured", "whole", 1900, 0.1957, peak),
        used("mbu", "measured", "whole", 1900, 0.4023, read),
    ]
    mixed = [
        Split(
            prompt_tokens=p,
            answer_tokens=a,
            weight=w,
            ttft=about(t, "s", "fit of TTFT", 0.02),
            decode=about(d, "s", f"{a - 1} decode steps", 0.02),
            total=about(t + d, "s", "TTFT and decode steps", 0.02),
            prefill_share=t / (t + d),
            decode_share=d / (t + d),
            owner=owner,
            ttft_owner="kernel",  # type: ignore[arg-type]
        )
        for p, a, w, t, d, owner in ((2000, 300, 0.7, 7.712, 3.109, "prefill"), (200, 300, 0.3, 0.704, 2.354, "decode"))
    ]
    full = h100()
    assert full.prediction
    model = ModelFacts(
        name="SmolLM2-135M-Instruct",
        source="GGUF file SmolLM2-135M-Instruct.Q4_1.gguf",
        parameters=134_515_008,
        active_parameters=134_515_008,
        embedding_parameters=28_311_552,
        weight_bytes=measured(92.9e6, "B", "sizes of 272 tensors in the file"),
        kv_bytes_per_token=predicted(23_040, "B", "KV cache in fp16"),
        layers=30,
        max_context=8192,
        weights_format="q4_1 + q8_0 + f32",
        kv_format="fp16",
        compute_dtype="fp32",
    )
    text = (
        "Prefill owns 67% of the time over the mix of 2 requests and is kernel-bound (its kernels take longer than the "
        "work needs): 64% of its step, 36% MFU."
    )
    return Run(
        envelope=change(
            full.envelope, id="20261129T194500Z-embedded", arguments=(), created="2026-11-29T19:45:00Z", duration_s=88.9
        ),
        target=Target(
            name="embedded",
            engine="llama.cpp",
            served_model="SmolLM2-135M-Instruct.Q4_1.gguf",
            prompting="token_ids",
            endpoint="/completion",
            max_context=8192,
            settings={"threads": "2", "prompt cache": "off", "context": "8192"},
        ),
        model=model,
        machine=Machine(
            name="AMD EPYC 9R14",
            kind="cpu",
            local=True,
            ceilings=(
                Ceilings(
                    basis="measured",
                    compute={"fp32": peak, "bf16": about(417e9, "FLOP/s", "matmul of random bf16, 2 threads")},
                    bandwidth=read,
                    copy_bandwidth=about(27.1e9, "B/s", "copying 1 GiB, 2 threads"),
                    how="phasewise ceilings, 2026-11-28, 2 threads, random data larger than the caches",
                ),
            ),
            notes=("A CPU is judged against what was measured on it.",),
        ),
        prediction=change(
            full.prediction,
            basis="measured",
            dtype="fp32",
            peak_flops=203e9,
            bandwidth=33.8e9,
            prefill=change(
                full.prediction.prefill,
                flops=563.1e9,
                time_s=2.774,
                compute_s=2.774,
                memory_s=4.1e-3,
                weight_bytes=92.7e6,
                kv_bytes=46.1e6,
                bytes=138.8e6,
                attention_share=0.2455,
            ),
            decode=change(
                full.prediction.decode,
                flops=0.3999e9,
                time_s=4.107e-3,
                compute_s=1.97e-3,
                memory_s=4.107e-3,
                weight_bytes=92.7e6,
                kv_bytes=46.1e6,
                bytes=138.8e6,
            ),
            lengths=tuple(
                LengthRow(tokens=n, time_s=s, bound="compute", attention_share=a)
                for n, s, a in ((128, 0.137, 0.02), (512, 0.580, 0.08), (1024, 1.250, 0.14), (2000, 2.774, 0.2455))
            ),
        ),
        observation=Observation(
            prefill=PrefillObservation(
                points=tuple(
                    PrefillPoint(tokens=n, ttft=about(s, "s", "median of 3 requests", 0.02), best=s * 0.98, samples=3)
                    for n, s in lengths
                ),
                fit=fit,
            ),
            decode=DecodeObservation(
                points=points, fit=line, tpot=points[0].tpot, tpot_context=160, tokens_per_chunk=1.0
            ),
            checks=CLEAN,
            requests=31,
            prompt_tokens=28_400,
            output_tokens=2_011,
            stopped="the budget of 90 s was spent",
        ),
        judgement=Judgement(
            prefill=PhaseVerdict(
                phase="prefill",
                yardstick="mfu",
                headline=prefill_used[0].value,
                why_null="",
                at_tokens=2000,
                step=about(7.712, "s", "fit of TTFT at 2,000 tokens", 0.02),
                floor=predicted(2.774, "s", "compute floor"),
                bound="kernel",
                shares=parts(7.712, ("kernel", 4.934), ("compute", 2.774), ("overhead", 0.004)),
                utilisations=tuple(prefill_used),
            ),
            decode=PhaseVerdict(
                phase="decode",
                yardstick="mbu",
                headline=decode_used[1].value,
                why_null="",
                at_tokens=1900,
                step=about(10.05e-3, "s", "fit of step time at 1,900 tokens of context", 0.02),
                floor=predicted(4.043e-3, "s", "memory floor"),
                bound="kernel",
                shares=parts(10.05e-3, ("kernel", 5.107e-3), ("memory", 4.043e-3), ("overhead", 0.9e-3)),
                utilisations=tuple(decode_used),
                notes=(
                    "18% MFU is normal for decode at batch 1: it waits for bytes, not for math",
                    "taken apart at 1,900 tokens of context, the longest that was measured",
                ),
            ),
            splits=tuple(mixed),
            prefill_share=0.6723,
            decode_share=0.3277,
            verdict=Verdict(owner="prefill", bound="kernel", text=text),
        ),
        remedies=Remedies(
            fixes=(
                fix_of(
                    "prefix caching",
                    "prefill",
                    3.855,
                    7.712,
                    3.857,
                    "half of the prompt is taken to be shared",
                    "send the same prompt twice with the cache on",
                    10.821,
                ),
            ),
            rejected=(Rejected(name="quantised weights", phase="decode", reason="the weights are in 4 bits already"),),
        ),
    )
