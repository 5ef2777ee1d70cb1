"""Checks of marks on real PyTorch and transformers models; `test_mark_torch.py` runs them in the engines' Python.

``python mark_torch.py`` runs every ``check_...`` and prints one JSON object: its name to "" or to what failed.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from mark_fakes import Log
from mark_fakes import profiler as fake_profiler
from mark_fakes import torch_nvtx as fake_nvtx
from torch import nn

import phasewise
from phasewise.errors import UsageError
from phasewise.mark import listening
from phasewise.mark.label import LAST_CHUNK, NO_CACHE, Label

CONFIG = transformers.LlamaConfig(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=500,
    max_position_embeddings=256,
    pad_token_id=0,
    eos_token_id=None,
)


def llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return transformers.AutoModelForCausalLM.from_config(CONFIG).eval()


CACHE = "cache" if "cache" in inspect.signature(llama().forward).parameters else "past_key_values"
IDS = torch.randint(5, 400, (2, 7), generator=torch.Generator().manual_seed(1))
LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1] * 7])
RIGHT = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])


def kept(out: Any) -> Any:
    return getattr(out, CACHE, None) or out.past_key_values


def rows(label: Label) -> tuple[Any, ...]:
    """Phase, then requests, tokens, context, Σq² and Σq·k of its one half."""
    half = label.prefill or label.decode
    assert half is not None
    return label.phase, half.requests, half.tokens, half.context, half.squares, half.products


def generated(model: Any, **options: Any) -> list[Label]:
    """Labels of a generation, whose ids and scores are the same with and without marks."""
    told = {"do_sample": False, "return_dict_in_generate": True, "output_logits": True, **options}
    plain = model.generate(**told)
    with phasewise.instrument(model) as handle, handle.timed() as taken:
        marked = model.generate(**told)
    assert torch.equal(plain.sequences, marked.sequences)
    if plain.logits is not None:
        assert all(torch.equal(a, b) for a, b in zip(plain.logits, marked.logits, strict=True))
    assert all(step.seconds > 0 for step in taken.steps)
    return [step.label for step in taken.steps]


def check_a_padded_batch() -> None:
    """Row 0 holds 4 tokens, row 1 holds 7, on whichever side the padding is."""
    for side in (LEFT, RIGHT):
        labels = generated(llama(), input_ids=IDS, attention_mask=side, max_new_tokens=3)
        assert [rows(one) for one in labels] == [
            ("prefill", 2, 11, 11, 65, 65),
            ("decode", 2, 2, 13, 2, 13),
            ("decode", 2, 2, 15, 2, 15),
        ], labels


def check_a_static_cache() -> None:
    options = {"attention_mask": LEFT, "max_new_tokens": 3, "cache_implementation": "static"}
    labels = generated(llama(), input_ids=IDS, **options)
    assert [rows(one) for one in labels] == [
        ("prefill", 2, 11, 11, 65, 65),
        ("decode", 2, 2, 13, 2, 13),
        ("decode", 2, 2, 15, 2, 15),
    ], labels


def check_chunked_prefill() -> None:
    """Seven tokens in chunks of three: the last is one token, as a decode step is; that is said."""
    labels = generated(llama(), input_ids=IDS[1:], max_new_tokens=3, prefill_chunk_size=3)
    assert [rows(one) for one in labels] == [
        ("prefill", 1, 3, 3, 9, 9),
        ("prefill", 1, 3, 6, 9, 18),
        ("decode", 1, 1, 7, 1, 7),
        ("decode", 1, 1, 8, 1, 8),
        ("decode", 1, 1, 9, 1, 9),
    ], labels
    assert [one.doubt for one in labels] == ["", "", LAST_CHUNK, "", ""]


def check_chunks_of_a_padded_batch() -> None:
    """Of row 0 the first chunk is all padding, the second has two tokens of three."""
    options = {"attention_mask": torch.tensor([[0, 0, 0, 0, 1, 1], [1] * 6]), "prefill_chunk_size": 3}
    labels = generated(llama(), input_ids=IDS[:, :6], max_new_tokens=2, **options)
    assert [rows(one) for one in labels] == [
        ("prefill", 1, 3, 3, 9, 9),
        ("prefill", 2, 5, 8, 13, 4 + 18),
        ("decode", 2, 2, 10, 2, 10),
    ], labels


def check_speculative_decoding() -> None:
    labels = generated(llama(), input_ids=IDS[1:], max_new_tokens=6, assistant_model=llama(1))
    assert labels[0].phase == "prefill"
    verify = [one for one in labels if one.speculative]
    assert verify, labels
    assert all(one.phase == "decode" and one.doubt == "" for one in labels[1:])
    assert all((one.decode.tokens or 0) > 1 for one in verify if one.decode)


def check_beams_are_requests() -> None:
    labels = generated(llama(), input_ids=IDS, attention_mask=LEFT, max_new_tokens=3, num_beams=2)
    assert [rows(one)[:3] for one in labels] == [("prefill", 4, 22), ("decode", 4, 4), ("decode", 4, 4)]


def check_embeddings_in_place_of_ids() -> None:
    model = llama()
    labels = generated(model, inputs_embeds=model.get_input_embeddings()(IDS), max_new_tokens=2)
    assert [rows(one)[:3] for one in labels] == [("prefill", 2, 14), ("decode", 2, 2)]


def check_an_older_gpt() -> None:
    """GPT-2 has no logits_to_keep in some versions, and positional arguments in another order."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=500, n_positions=64, eos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    labels = generated(model, input_ids=IDS, attention_mask=LEFT, max_new_tokens=3, pad_token_id=0)
    assert [rows(one)[:3] for one in labels] == [("prefill", 2, 11), ("decode", 2, 2), ("decode", 2, 2)]


def check_a_sliding_window() -> None:
    """The cache forgets; the context is what the tokens are after."""
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=500, sliding_window=4, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    labels = generated(model, input_ids=IDS[1:], max_new_tokens=3)
    assert [one.phase for one in labels] == ["prefill", "decode", "decode"]
    assert [rows(one)[2] for one in labels] == [7, 1, 1]


def check_a_static_cache_of_sliding_windows() -> None:
    """Its masks are as narrow as the window: one row is counted, of several the padding that left it is not known."""
    for kind in (transformers.MistralConfig, transformers.Gemma3TextConfig):
        torch.manual_seed(0)
        config = kind(
            hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, vocab_size=500, sliding_window=4, eos_token_id=None, pad_token_id=0, bos_token_id=1,
        )  # fmt: skip
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        one = generated(model, input_ids=IDS[1:], max_new_tokens=3, cache_implementation="static")
        assert [rows(label) for label in one] == [
            ("prefill", 1, 7, 7, 49, 49), ("decode", 1, 1, 8, 1, 8), ("decode", 1, 1, 9, 1, 9)
        ], one  # fmt: skip
        two = generated(model, input_ids=IDS, attention_mask=LEFT, max_new_tokens=2, cache_implementation="static")
        assert rows(two[0])[:4] == ("prefill", 2, 11, 11), two
        assert rows(two[1])[:4] == ("decode", 2, 2, None), two


def check_data_parallel_hands_arguments_on() -> None:
    model = torch.nn.DataParallel(llama())
    with phasewise.instrument(model) as handle, handle.timed() as taken, torch.no_grad():
        model(IDS)
        model(input_ids=IDS, attention_mask=LEFT)
    assert [rows(step.label)[:3] for step in taken.steps] == [("prefill", 2, 14), ("prefill", 2, 11)]


def check_what_is_no_module_and_what_are_no_lengths() -> None:
    model = llama()
    for given, lengths in ((type(model), None), (model, lambda **_: None), (model, lambda **_: ([1, 2], [3]))):
        try:
            with phasewise.instrument(given, lengths=lengths) as handle, handle.timed():
                given(input_ids=IDS)
        except UsageError:
            continue
        raise AssertionError(given)


def check_recurrent_layers() -> None:
    """A cache of states has no length, but says whether anything went into it: from then on it is counted."""
    torch.manual_seed(0)
    config = transformers.MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=500, eos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for length in (7, 1):
        labels = generated(model, input_ids=IDS[1:, :length], max_new_tokens=3, pad_token_id=0)
        assert [rows(one)[:4] for one in labels] == [
            ("prefill", 1, length, length), ("decode", 1, 1, length + 1), ("decode", 1, 1, length + 2)
        ], labels  # fmt: skip


def check_an_encoder_and_decoder() -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        d_model=32, d_ff=64, num_layers=2, num_heads=2, d_kv=16, vocab_size=500, decoder_start_token_id=0,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    labels = generated(model, input_ids=IDS, max_new_tokens=3)
    assert [rows(one)[:3] for one in labels] == [("prefill", 2, 2), ("decode", 2, 2), ("decode", 2, 2)]


def check_packed_sequences() -> None:
    """Three sequences of 3, 1 and 4 tokens in one row, told by positions that begin anew."""
    model = llama()
    ids = torch.randint(5, 400, (1, 8))
    positions = torch.tensor([[0, 1, 2, 0, 0, 1, 2, 3]])
    with torch.no_grad():
        plain = model(input_ids=ids, position_ids=positions).logits
        with phasewise.instrument(model) as handle, handle.timed() as taken:
            marked = model(input_ids=ids, position_ids=positions).logits
    assert torch.equal(plain, marked)
    assert [rows(step.label) for step in taken.steps] == [("prefill", 3, 8, 8, 26, 26)]


def check_continuous_batching() -> None:
    """transformers' own scheduler, 16 tokens a pass: every pass as the lengths that it hands to attention say it was.

    Where a prompt comes in chunks beside a decode the pass is mixed; the answers are those of generate().
    """
    if not hasattr(transformers, "ContinuousBatchingConfig"):
        return
    model = llama()
    prompts = [list(range(10, 30)), [6] * 3, list(range(100, 109))]
    alone = [
        model.generate(torch.tensor([one]), max_new_tokens=4, do_sample=False, pad_token_id=0)[0, len(one) :].tolist()
        for one in prompts
    ]
    passed: list[tuple[list[int], list[int]]] = []

    def lengths(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        keys = kwargs["cu_seq_lens_k"]
        keys = keys["full_attention"] if isinstance(keys, dict) else keys
        passed.append((kwargs["cu_seq_lens_q"].diff().tolist(), keys.diff().tolist()))

    model.register_forward_pre_hook(lengths, with_kwargs=True)
    settings = transformers.GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0)
    small = transformers.ContinuousBatchingConfig(max_memory_percent=0.02, max_batch_tokens=16)
    with phasewise.instrument(model) as handle, handle.timed() as taken:
        answers = model.generate_batch(
            inputs=prompts, generation_config=settings, continuous_batching_config=small, warmup=False
        )
    assert sorted(one.generated_tokens for one in answers.values()) == sorted(alone)
    labels = [step.label for step in taken.steps]
    assert len(labels) == len(passed) > 4
    for label, (new, context) in zip(labels, passed, strict=True):
        rows = [(q, k) for q, k in zip(new, context, strict=True) if q]
        generations = [(q, k) for q, k in rows if q == 1 and k > 1]
        chunks = [(q, k) for q, k in rows if (q, k) not in generations]
        for half, held in ((label.prefill, chunks), (label.decode, generations)):
            counted = (half.requests, half.tokens, half.context) if half else (0, 0, 0)
            assert counted == (len(held), sum(q for q, _ in held), sum(k for _, k in held)), (label, rows)
    assert {label.phase for label in labels} >= {"prefill", "mixed", "decode"}, labels


def check_a_loop_of_ones_own() -> None:
    """Prefill in two chunks, decode, and the next turn of the chat, with the cache handed on."""
    model = llama()
    with torch.no_grad(), phasewise.instrument(model) as handle, handle.timed() as taken:
        cache = kept(model(IDS[1:]))
        model(IDS[1:, :5], **{CACHE: cache})
        model(IDS[1:, :1], **{CACHE: cache})
        model(torch.randint(5, 400, (1, 20)), **{CACHE: cache})
        model(torch.randint(5, 400, (1, 5)), **{CACHE: cache})
    found = [step.label for step in taken.steps]
    assert [one.phase for one in found] == ["prefill", "prefill", "decode", "prefill", "decode"]
    assert found[-1].speculative
    assert found[-1].doubt


def check_compiled_models() -> None:
    """Compiled before or after, as a whole, in place, or by its forward: same logits, and marks where it is called."""
    for how in ("wrapped", "in place", "forward"):
        torch._dynamo.reset()
        model: Any = llama()
        if how == "wrapped":
            model = torch.compile(model, backend="aot_eager")
        elif how == "in place":
            model.compile(backend="aot_eager")
        else:
            model.forward = torch.compile(model.forward, backend="aot_eager")
        with torch.no_grad():
            plain = model(input_ids=IDS).logits
            with phasewise.instrument(model) as handle, handle.timed() as taken:
                out = model(input_ids=IDS)
                model(input_ids=IDS[:, :1], **{CACHE: kept(out)})
            again = model(input_ids=IDS).logits
        assert torch.equal(plain, out.logits), how
        assert torch.equal(plain, again), how
        assert [step.label.phase for step in taken.steps] == ["prefill", "decode"], how


def check_marks_leave_nothing_in_a_graph() -> None:
    torch._dynamo.reset()
    model = llama()
    with torch.no_grad(), phasewise.instrument(model) as handle, handle.timed() as taken:
        torch.compile(model, backend="aot_eager", fullgraph=True)(input_ids=IDS)
    assert taken.steps == ()


def check_what_generate_compiles() -> None:
    """With a static cache on a GPU generate() calls what get_compiled_call gives it."""
    torch._dynamo.reset()
    model = llama()
    if not hasattr(model, "get_compiled_call"):
        return
    config = transformers.CompileConfig(backend="aot_eager", mode="default", fullgraph=False, dynamic=False)
    with torch.no_grad():
        plain = model.get_compiled_call(config)(input_ids=IDS).logits
        with phasewise.instrument(model) as handle, handle.timed() as taken:
            marked = model.get_compiled_call(config)(input_ids=IDS).logits
        assert "get_compiled_call" not in model.__dict__
    assert torch.equal(plain, marked)
    assert [step.label.phase for step in taken.steps] == ["prefill"]


def check_phase_within_a_compiled_function() -> None:
    torch._dynamo.reset()

    def step(x: torch.Tensor) -> torch.Tensor:
        with phasewise.phase("decode"):
            return x * 2

    assert torch.equal(torch.compile(step, backend="aot_eager")(torch.ones(3)), torch.full((3,), 2.0))


def check_hooks_of_others() -> None:
    """accelerate puts a forward of its own in; other hooks change the input and the output."""
    model = llama()
    add, remove = accelerates()
    add(model)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    model.register_forward_hook(lambda module, args, out: out.logits * 2)
    with torch.no_grad():
        plain = model(IDS)
        with phasewise.instrument(model) as handle, handle.timed() as taken:
            assert torch.equal(plain, model(IDS))
            remove(model)
            assert torch.equal(plain, model(IDS))
    assert [rows(step.label)[:3] for step in taken.steps] == [("prefill", 2, 14)] * 2


def check_everything_comes_off_again() -> None:
    model = llama()
    before = {name: copy.copy(value) for name, value in model.__dict__.items()}
    handle = phasewise.instrument(model)
    assert "already" in mistake(lambda: phasewise.instrument(model))
    handle.remove()
    handle.remove()
    assert model.__dict__.keys() == before.keys()
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not model._forward_hooks_always_called
    phasewise.instrument(model).remove()


def check_a_copy_of_a_marked_model_is_itself() -> None:
    model = llama()
    with phasewise.instrument(model), torch.no_grad():
        other = copy.deepcopy(model)
        other.lm_head.weight.mul_(2)
        assert torch.equal(other(IDS).logits, model(IDS).logits * 2)
        if hasattr(model, "get_compiled_call"):
            torch._dynamo.reset()
            config = transformers.CompileConfig(backend="aot_eager", mode="default", fullgraph=False, dynamic=False)
            assert torch.equal(other.get_compiled_call(config)(input_ids=IDS).logits, model(IDS).logits * 2)


def check_a_forward_that_fails() -> None:
    """An error ends its band; a KeyboardInterrupt, of which no hook is told, at the next forward."""
    log = Log()
    model = llama()
    with watched(log), phasewise.instrument(model):
        for error in (ValueError, KeyboardInterrupt):
            hook = model.lm_head.register_forward_pre_hook(raising(error))
            try:
                model(IDS)
            except error:
                pass
            else:
                raise AssertionError("the error was swallowed")
            hook.remove()
        with torch.no_grad():
            model(IDS)
    assert [what for what, _ in log.told()] == ["push", "enter", "exit", "pop"] * 3, log.told()


def check_threads_share_a_model() -> None:
    model = llama()
    labels: list[list[str]] = []
    with phasewise.instrument(model) as handle, handle.timed() as taken:

        def work() -> None:
            with torch.no_grad():
                out = model(IDS)
                model(IDS[:, :1], **{CACHE: kept(out)})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        labels.append([step.label.phase for step in taken.steps])
    assert sorted(labels[0]) == ["decode"] * 4 + ["prefill"] * 4


def check_both_listeners_see_each_forward() -> None:
    log = Log()
    model = llama()
    with watched(log), phasewise.instrument(model):
        model.generate(IDS, attention_mask=LEFT, max_new_tokens=2, do_sample=False)
    first = "phasewise:step prefill requests=2 tokens=11 context=11 squares=65 products=65"
    second = "phasewise:step decode requests=2 tokens=2 context=13 squares=2 products=13"
    assert log.told() == [(what, name) for name in (first, second) for what in ("push", "enter", "exit", "pop")]


def check_a_real_trace_reads_back() -> None:
    """PyTorch's own profiler, exported, opened by phasewise: each step with the phase and the counts of its call."""
    from phasewise.observe.traces.annotations import parse

    model = llama()
    with tempfile.TemporaryDirectory() as folder, phasewise.instrument(model):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            model.generate(IDS, attention_mask=LEFT, max_new_tokens=3, do_sample=False)
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    bands = sorted((one for one in events if one.get("cat") == "user_annotation"), key=lambda one: one["ts"])
    marks = [mark for one in bands if (mark := parse(one["name"])) is not None and mark.dialect == "phasewise"]
    assert [(mark.phase, (mark.prefill or mark.decode).context) for mark in marks] == [  # type: ignore[union-attr]
        ("prefill", 11),
        ("decode", 13),
        ("decode", 15),
    ]
    assert all(mark.exact for mark in marks)


def check_tasks_in_a_real_trace() -> None:
    """Two tasks whose bands overlap on one thread keep their own begin and end."""
    import asyncio

    async def one(name: str, seconds: float) -> None:
        with phasewise.phase(name):  # type: ignore[arg-type]
            await asyncio.sleep(seconds)

    async def main() -> None:
        await asyncio.gather(one("prefill", 0.02), one("decode", 0.1))

    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            asyncio.run(main())
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    took = {one["name"]: one["dur"] for one in events if str(one.get("name")).startswith("phasewise:")}
    assert took.keys() == {"phasewise:prefill", "phasewise:decode"}
    assert took["phasewise:decode"] >= 0.1e6 > 0.02e6 <= took["phasewise:prefill"] < took["phasewise:decode"]


class Plain(nn.Module):
    """A model of the user's own, whose cache is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, tokens: torch.Tensor, at: int = 0) -> torch.Tensor:
        return self.layer(tokens)


def check_a_model_of_ones_own() -> None:
    model = Plain()
    with phasewise.instrument(model) as handle, handle.timed() as taken:
        model(torch.ones(1, 4))
    assert [(step.label.phase, step.label.doubt) for step in taken.steps] == [("unknown", NO_CACHE)]

    def lengths(tokens: torch.Tensor, at: int = 0) -> tuple[list[int], list[int]]:
        return [1, 3], [at + 1, 3]

    with phasewise.instrument(model, lengths=lengths) as handle, handle.timed() as taken:
        model(torch.ones(1, 4), at=9)
    label = taken.steps[0].label
    assert (label.phase, label.decode.context, label.prefill.tokens) == ("mixed", 10, 3)  # type: ignore[union-attr]


def check_profile_and_judged() -> None:
    model = llama()
    state = torch.get_rng_state()
    with phasewise.instrument(model) as handle:
        profile = handle.profile(prompt_tokens=16, answer_tokens=8, batch=2)
    assert torch.equal(state, torch.get_rng_state())
    assert sum(profile.prefill.seconds) >= 0.2
    assert sum(profile.decode.seconds) >= 0.2
    assert (profile.prefill.requests, profile.prefill.tokens, profile.decode.context) == (2, 16, 19.5)
    assert (profile.dtype, profile.device) == ("float32", "cpu")
    found = phasewise.judged(profile, on="h100-sxm")
    assert found.prefill.mfu is None
    assert "fp32" in found.why_null
    half = phasewise.judged(profile._replace(dtype="bfloat16"), on="h100-sxm")
    assert half.prefill.mfu is not None
    assert half.decode.mbu is not None
    assert 0 < half.decode.mbu.value < 1
    assert 0 < half.prefill.mfu.value < 1


def check_a_model_in_training_is_refused() -> None:
    model = llama().train()
    assert "eval()" in mistake(lambda: phasewise.instrument(model).profile())
    assert "torch.nn.Module" in mistake(lambda: phasewise.instrument(len))


def check_the_fakes_have_the_real_names() -> None:
    import torch.autograd.profiler as real_profiler
    import torch.cuda.nvtx as real_nvtx

    fake = fake_profiler(Log())
    assert isinstance(real_profiler._is_profiler_enabled, bool)
    assert same(fake.record_function.__init__, real_profiler.record_function.__init__)
    assert fake.record_function.__exit__
    nvtx = fake_nvtx(Log())
    for name in ("range_push", "range_pop", "range_start", "range_end"):
        assert same(getattr(nvtx, name), getattr(real_nvtx, name)), name
    if not torch.version.cuda:
        stub = fake_nvtx(Log(), cuda=False)._nvtx
        assert type(real_nvtx._nvtx).__name__ == type(stub).__name__ == "_NVTXStub"
        assert listening._by_torch() is None
    event = torch.cuda.Event
    assert "enable_timing" in inspect.signature(event.__new__).parameters
    assert list(inspect.signature(event.record).parameters)[:2] == ["self", "stream"]
    assert list(inspect.signature(event.elapsed_time).parameters) == ["self", "end_event"]
    assert list(inspect.signature(torch.cuda.synchronize).parameters) == ["device"]
    assert list(inspect.signature(torch.cuda.current_stream).parameters) == ["device"]
    assert callable(torch.cuda.is_current_stream_capturing)


def check_the_package_nvtx() -> None:
    """Its four calls take what we give them; nothing listens, and nothing happens."""
    try:
        import nvtx  # noqa: F401
    except ImportError:
        return
    found = listening._by_nvtx()
    assert found is not None
    found.push("phasewise:decode")
    found.pop()
    found.end(found.start("phasewise:decode"))


def accelerates() -> tuple[Any, Any]:
    """How accelerate hangs a hook on a module and takes it off; the same by hand where it is not installed."""
    try:
        from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
    except ImportError:

        def add(module: Any) -> None:
            old = module._old_forward = module.forward
            module.forward = functools.update_wrapper(lambda *args, **kwargs: old(*args, **kwargs), old)

        def remove(module: Any) -> None:
            module.forward = module._old_forward

        return add, remove
    return lambda module: add_hook_to_module(module, ModelHook()), remove_hook_from_module


def same(one: Any, other: Any) -> bool:
    def names(function: Any) -> list[str]:
        return [name for name in inspect.signature(function).parameters if name != "self"]

    return names(one) == names(other)


def mistake(call: Callable[[], object]) -> str:
    """What a UsageError says; pytest is not installed there."""
    try:
        call()
    except UsageError as error:
        return str(error)
    raise AssertionError("no UsageError")


def raising(error: type[BaseException]) -> Any:
    def hook(module: Any, args: Any) -> None:
        raise error

    return hook


class watched:  # noqa: N801
    """Both listeners, faked."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._before = sys.modules["torch.autograd.profiler"], sys.modules["torch.cuda.nvtx"]
        sys.modules["torch.autograd.profiler"] = fake_profiler(self._log)
        sys.modules["torch.cuda.nvtx"] = fake_nvtx(self._log)
        listening._tool, listening._nvtx = True, None

    def __exit__(self, *error: object) -> None:
        sys.modules["torch.autograd.profiler"], sys.modules["torch.cuda.nvtx"] = self._before
        listening._tool, listening._nvtx = False, None


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    told = {}
    for name, check in list(globals().items()):
        if name.startswith("check_") and (len(sys.argv) == 1 or name in sys.argv[1:]):
            try:
                check()
                told[name] = ""
            except BaseException:
                told[name] = traceback.format_exc()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
