"""The process that runs a transformers model for ``engines.torch_local``: ``python -m phasewise.mark.local_child``.

It takes its settings as one JSON argument, answers one request at a time on its standard output, and ends when its
standard input does. Nothing of the model's directory is executed: no remote code, weights from safetensors only.
"""

from __future__ import annotations

import importlib
import inspect
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from phasewise.errors import UsageError
from phasewise.mark.clock import Clock, clock
from phasewise.mark.greedy import Greedy
from phasewise.mark.instrument import instrument
from phasewise.record.local import Answered, Ask, Asked, Failure, Introduction, Record, Recorded, Said, Settings

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def main(argument: str) -> None:
    """Load, introduce the model, then answer until standard input ends."""
    # Whatever a library prints goes to the log; standard output is ours.
    out = os.dup(1)
    os.dup2(2, 1)
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()

    def say(said: Said) -> None:
        view = memoryview(msgspec.json.encode(said) + b"\n")
        while view:
            view = view[os.write(out, view) :]

    try:
        settings = msgspec.json.decode(argument, type=Settings)
        model = _loaded(settings)
        greedy, timer = Greedy(model), clock(model)
        instrument(model)
        say(_introduced(model))
    except Exception as error:
        say(_failure(error))
        return
    while True:
        ask = msgspec.json.decode(asked.get(), type=Asked)
        try:
            if isinstance(ask, Record):
                say(_recorded(model, greedy, timer, ask))
            else:
                say(_answered(model, greedy, timer, ask))
        except Exception as error:
            say(_failure(error))


def _recorded(model: Any, greedy: Greedy, timer: Clock, record: Record) -> Recorded:
    """Under PyTorch's profiler without stacks, whose bands of phases come from ``instrument``."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = next(model.parameters()).device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities):
        pass  # the first profile of a process sets everything up
    profiler = profile(activities=activities, record_shapes=True)
    if record.phase == "prefill":
        asks = [Ask(prompts=(prompt,), tokens=record.tokens) for prompt in record.prompts]
        with profiler:
            answers = [_answered(model, greedy, timer, ask) for ask in asks]
    else:
        rows = Ask(prompts=record.prompts, tokens=record.tokens)
        answers = [_answered(model, greedy, timer, rows, profiler.start)]
        profiler.stop()
    profiler.export_chrome_trace(record.path)
    return Recorded(answers=tuple(answers))


def _answered(
    model: Any, greedy: Greedy, timer: Clock, ask: Ask, decoding: Callable[[], object] = lambda: None
) -> Answered:
    import torch

    ids = torch.tensor(ask.prompts, device=next(model.parameters()).device)
    began = time.perf_counter()
    moments = greedy.answer(ids, ask.tokens, timer, decoding)
    since = timer.seconds([(moments[0], moment) for moment in moments[1:]])
    return Answered(began=began, tokens=tuple(began + seconds for seconds in since), ended=time.perf_counter())


def _loaded(settings: Settings) -> Any:
    import torch

    transformers: Any = importlib.import_module("transformers")
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("PyTorch sees no GPU: install its build for CUDA, or give --device cpu")
    config = transformers.AutoConfig.from_pretrained(settings.directory, trust_remote_code=False, local_files_only=True)
    dtype = getattr(torch, _DTYPES[settings.dtype]) if settings.dtype != "auto" else "auto"
    auto = transformers.AutoModelForCausalLM
    if settings.random_weights:
        stated = getattr(config, "dtype", None) or torch.bfloat16
        with torch.device(device):
            model = auto.from_config(config, trust_remote_code=False, dtype=stated if dtype == "auto" else dtype)
    else:
        model = auto.from_pretrained(
            settings.directory,
            config=config,
            trust_remote_code=False,
            local_files_only=True,
            use_safetensors=True,
            dtype=dtype,
        )
    return model.to(device).eval()


def _introduced(model: Any) -> Introduction:
    import torch

    transformers: Any = importlib.import_module("transformers")
    parameter = next(model.parameters())
    on_gpu = parameter.device.type == "cuda"
    names = {name: short for short, name in _DTYPES.items()}
    dtype = str(parameter.dtype).removeprefix("torch.")
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return Introduction(
        engine=f"transformers {transformers.__version__}, torch {torch.__version__}",
        model=type(model).__name__,
        device="cuda" if on_gpu else "cpu",
        device_name=torch.cuda.get_device_name(parameter.device) if on_gpu else "",
        dtype=names.get(dtype, dtype),
        attention=str(getattr(model.config, "_attn_implementation", None) or "unknown"),
        threads=torch.get_num_threads(),
        parameters=sum(one.numel() for one in model.parameters()),
        vocabulary=model.get_input_embeddings().num_embeddings,
        max_context=context if type(context) is int and context > 0 else None,
    )


def _failure(error: Exception) -> Failure:
    kinds = {one.__name__ for one in inspect.getmro(type(error))}
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines)[:500] or type(error).__name__
    return Failure(text=text, memory=bool(kinds & {"OutOfMemoryError", "MemoryError"}) or "can't allocate" in text)


def _listen(asked: queue.SimpleQueue[bytes]) -> None:
    # The parent holds the other end: it closes it to stop us, and the system closes it when the parent dies.
    for line in sys.stdin.buffer:
        asked.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
