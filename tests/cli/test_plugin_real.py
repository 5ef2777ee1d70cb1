"""The plugin in the real vLLM CPU engine, its torch profiler on: each band against the scheduler's own record.

`vllm_oracle.py`, a plugin of its own, writes that record. Where `make engines` has installed vLLM.
"""

from __future__ import annotations

import gzip
import json
import shutil
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_run import phasewise
from test_servers_real import free_port, serving

from engines_python import ROOT, environment, python
from vllm_oracle import expected

PROFILER = {
    "profiler": "torch",
    "torch_profiler_with_stack": False,
    "torch_profiler_record_shapes": False,
    "ignore_frontend": True,
}
CHUNKED = ("--enable-chunked-prefill", "--max-num-batched-tokens", "256")
WHOLE = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048")
CACHED, UNCACHED = ("--enable-prefix-caching",), ("--no-enable-prefix-caching",)


class Engine(NamedTuple):
    """A server that runs, and where its traces and the scheduler's record come."""

    url: str
    traces: Path
    record: Path
    log: Path

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
        return dict(json.loads(text)) if text.strip().startswith(b"{") else {}

    def ask(self, prompt: list[int], answer: int, **more: Any) -> dict[str, Any]:
        body = {"model": "m", "prompt": prompt, "max_tokens": answer, "ignore_eos": True, "temperature": 0, **more}
        return self.post("/v1/completions", body)

    def steps(self) -> list[list[dict[str, Any]]]:
        """The scheduler's record, once the engine has come to rest."""
        seen = -1
        while (size := self.record.stat().st_size if self.record.exists() else 0) != seen:
            seen = size
            time.sleep(0.5)
        return [json.loads(line) for line in self.record.read_text().splitlines()] if seen else []


def home_of_model() -> Path:
    folder = Path(python()).parents[1] / "smollm2"
    if not folder.exists():
        pytest.skip("skipped: no model beside the engines (make engines)")
    return folder


def tiny(folder: Path) -> Path:
    """Two layers of four heads with random weights, and the tokenizer of the real model."""
    real = home_of_model()
    folder.mkdir()
    for one in real.iterdir():
        if one.suffix != ".safetensors" and one.is_file():
            shutil.copy(one, folder)
    config = json.loads((real / "config.json").read_text())
    config |= {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "head_dim": 64}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    config.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def installed(folder: Path) -> Path:
    """A folder by which Python finds phasewise's entry points as they are declared, and those of the oracle."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for name, groups in (
        ("phasewise", declared),
        ("oracle", {"vllm.general_plugins": {"oracle": "vllm_oracle:register"}}),
    ):
        about = folder / f"{name}-0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()
        ]
        (about / "entry_points.txt").write_text("\n".join(lines))
    return folder


@contextmanager
def engine(
    home: Path, model: Path, *flags: str, profiler: dict[str, Any] | None = None, **more: str
) -> Iterator[Engine]:
    traces, record, port = home / "traces", home / "record.jsonl", free_port()
    lent = home / "lent"
    lent.mkdir()
    variables = environment(lent)
    variables["PYTHONPATH"] += f":{installed(home / 'installed')}:{ROOT / 'tests'}"
    variables |= {"PHASEWISE_MARK": "1", "ORACLE_LOG": str(record), "VLLM_CPU_KVCACHE_SPACE": "1"}
    variables |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_HOST_IP": "127.0.0.1"}
    config = PROFILER | {"torch_profiler_dir": str(traces)} | (profiler or {})
    command = [python(), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--served-model-name", "m", "--max-model-len", "2048", "--enforce-eager"]
    command += ["--enable-prompt-tokens-details", "--profiler-config", json.dumps(config), *flags]
    with serving(home / "vllm.log", *command, port=port, **variables | more) as url:
        yield Engine(url, traces, record, home / "vllm.log")


def prompt(length: int, seed: int) -> list[int]:
    return [(seed * 7919 + at * 104729) % 40000 + 100 for at in range(length)]


class Seen(NamedTuple):
    """What one recording held."""

    files: list[Path]
    bands: list[list[str]]
    truth: list[list[dict[str, Any]]]
    usage: list[dict[str, Any]]


def recorded(one: Engine, ask: Any) -> Seen:
    """What ``ask`` has the engine do under its profiler: the bands of each rank, and the scheduler's record."""
    before = len(one.steps())
    one.post("/start_profile")
    usage = ask(one)
    truth = one.steps()[before:]
    one.post("/stop_profile")
    files = sorted(one.traces.glob("*.pt.trace.json*"))
    assert files, one.log.read_text()[-3000:]
    return Seen(files, [bands(file) for file in files], truth, usage)


def bands(file: Path) -> list[str]:
    """The names of our bands in a trace, in order."""
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    events = json.loads(text)["traceEvents"]
    ours = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("phasewise:")]
    return [e["name"] for e in sorted(ours, key=lambda e: float(e["ts"]))]


def agreed(seen: Seen) -> None:
    """Every step of the scheduler has its band in the trace of every rank, with all sums and in order; no other has."""
    wanted = [expected(rows) for rows in seen.truth]
    for found in seen.bands:
        assert found == wanted


def by_trace(seen: Seen, home: Path) -> dict[str, Any]:
    """`phasewise trace` on the files: one step per band though vLLM's own annotations mark it too."""
    done = phasewise("trace", *map(str, seen.files), "--json", cwd=home)
    assert done.code == 0, done.err
    document = done.document
    for rank in range(len(seen.files)):
        steps = [step for step in document["steps"] if step["rank"] == rank]
        assert [step["label"] for step in steps] == seen.bands[rank]
    return document


def mixed(one: Engine) -> list[dict[str, Any]]:
    """A prompt alone, its repetition, an answer alone, then everything at once; what the server says of each."""
    usage: list[dict[str, Any]] = []

    def ask(length: int, seed: int, answer: int) -> None:
        usage.append(one.ask(prompt(length, seed), answer)["usage"])

    ask(600, 1, 1)
    ask(600, 1, 1)
    ask(5, 2, 12)
    jobs = [(8, 3, 40), (300, 4, 20), (600, 1, 6), (257, 5, 9), (128, 6, 3), (1, 7, 15)]
    threads = [threading.Thread(target=ask, args=job) for job in jobs]
    for thread in threads:
        thread.start()
        time.sleep(0.15)
    for thread in threads:
        thread.join()
    assert len(usage) == 3 + len(jobs)
    return usage


def sent(usage: list[dict[str, Any]]) -> tuple[int, int]:
    """Tokens of prompts that were not found in the cache, and answered tokens but the first of each."""
    cached = sum((one.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for one in usage)
    return sum(one["prompt_tokens"] for one in usage) - cached, sum(one["completion_tokens"] - 1 for one in usage)


def counted(truth: list[list[dict[str, Any]]], phase: str) -> int:
    return sum(row["new"] for rows in truth for row in rows if row["phase"] == phase)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((*CACHED, *CHUNKED), id="cached-chunked"),
        pytest.param((*UNCACHED, *CHUNKED, "--no-async-scheduling"), id="uncached-chunked-sync"),
        pytest.param((*CACHED, *WHOLE, "--no-async-scheduling"), id="cached-whole-sync"),
        pytest.param((*UNCACHED, *WHOLE), id="uncached-whole"),
    ],
)
def test_every_step_of_the_real_model_agrees_with_the_scheduler(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with engine(tmp_path, home_of_model(), *flags) as one:
        one.ask(prompt(64, 9), 4)
        seen = recorded(one, mixed)
    agreed(seen)
    assert (counted(seen.truth, "prefill"), counted(seen.truth, "decode")) == sent(seen.usage)
    document = by_trace(seen, tmp_path)
    phases = {step["phase"] for step in document["steps"]}
    assert phases == {"prefill", "decode", "mixed"}
    longest = max(row["new"] for rows in seen.truth for row in rows)
    assert longest <= 256 if "--enable-chunked-prefill" in flags else longest >= 600
    cached = seen.usage[1]["prompt_tokens_details"]
    assert (cached is not None and cached["cached_tokens"] > 0) == ("--enable-prefix-caching" in flags)


def crowd(one: Engine) -> list[dict[str, Any]]:
    """Two long answers at once, more than the cache holds, and a prompt that repeats itself."""
    usage: list[dict[str, Any]] = []
    prompts = [prompt(400, 1), prompt(380, 2), prompt(20, 3) * 5]
    threads = [threading.Thread(target=lambda p=p: usage.append(one.ask(p, 200)["usage"])) for p in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(usage) == len(prompts)
    return usage


SMALL = ("--max-model-len", "1024", "--num-gpu-blocks-override", "10")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_rank_marks_requests_that_are_preempted(tmp_path: Path) -> None:
    flags = ("--tensor-parallel-size", "2", *SMALL, *CHUNKED, *CACHED)
    with engine(
        tmp_path, tiny(tmp_path / "tiny"), *flags, "--load-format", "dummy", VLLM_CPU_OMP_THREADS_BIND="0|1"
    ) as one:
        seen = recorded(one, crowd)
    assert len(seen.files) == 2
    agreed(seen)
    assert any(row["preemptions"] for rows in seen.truth for row in rows)
    by_trace(seen, tmp_path)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_verified_drafts_are_speculative_decode(tmp_path: Path) -> None:
    drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}
    flags = ("--speculative-config", json.dumps(drafts), *SMALL, *CHUNKED, *UNCACHED, "--load-format", "dummy")
    with engine(tmp_path, tiny(tmp_path / "tiny"), *flags) as one:
        seen = recorded(one, crowd)
    agreed(seen)
    assert any(row["preemptions"] for rows in seen.truth for row in rows)
    assert any(row["drafts"] for rows in seen.truth for row in rows)
    assert any(not row["drafts"] for rows in seen.truth for row in rows if row["phase"] == "decode")
    document = by_trace(seen, tmp_path)
    assert any(step["speculative"] for step in document["steps"])


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_profiler_that_waits_and_stops_by_itself_gets_whole_steps(tmp_path: Path) -> None:
    flags = (*UNCACHED, *CHUNKED, "--load-format", "dummy")
    bounds = {"delay_iterations": 3, "max_iterations": 4}
    with engine(tmp_path, tiny(tmp_path / "tiny"), *flags, profiler=bounds) as one:
        one.ask(prompt(64, 9), 4)
        seen = recorded(one, lambda one: [one.ask(prompt(30, 1), 12)["usage"]])
    # The third step starts the profiler, and the fifth that it records is the one before which it stops.
    assert seen.bands == [[expected(rows) for rows in seen.truth[2:6]]]
    document = by_trace(seen, tmp_path)
    assert all(step["kernels"] > 0 for step in document["steps"])
