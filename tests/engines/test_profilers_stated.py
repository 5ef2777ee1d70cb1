"""What is known of a profiler before it runs, and when its files are whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines_loopback import Loopback, Request, Step, page

from phasewise.engines import address
from phasewise.engines.client import Client
from phasewise.engines.profilers import files
from phasewise.engines.profilers.endpoint import endpoint
from phasewise.engines.profilers.stated import profiler_config, serves, stated, world
from phasewise.errors import Refused, UsageError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--profiler-config", '{"profiler": "torch", "torch_profiler_dir": "/d"}'], {"torch_profiler_dir": "/d"}),
        (['--profiler-config={"torch_profiler_dir": "/d"}'], {"torch_profiler_dir": "/d"}),
        (["--profiler-config.torch_profiler_dir", "/d"], {"torch_profiler_dir": "/d"}),
        (["--profiler_config.torch-profiler-dir=/d"], {"torch_profiler_dir": "/d"}),
        (["--profiler-config.torch_profiler_with_stack=false"], {"torch_profiler_with_stack": False}),
        (["--profiler-config", "{broken"], {}),
        (["--profiler-config"], {}),
    ],
)
def test_vllms_profiler_config(given: list[str], expected: dict[str, Any]) -> None:
    found = profiler_config(["python", "-m", "vllm.entrypoints.openai.api_server", *given])
    assert {key: value for key, value in found.items() if key in expected} == expected
    assert expected or not found


@pytest.mark.parametrize(
    ("arguments", "ranks"),
    [
        (["vllm", "serve", "m"], 1),
        (["vllm", "serve", "m", "--tensor-parallel-size", "4"], 4),
        (["vllm", "serve", "m", "-tp", "4", "--pipeline_parallel_size=2"], 8),
        (["python", "-m", "sglang.launch_server", "--tp-size", "8", "--dp-size", "2"], 16),
        (["nginx"], None),
    ],
)
def test_workers_of_a_command_line(arguments: list[str], ranks: int | None) -> None:
    assert world(arguments) == ranks


def asked(pages: dict[str, object], engine: str) -> Any:
    def script(request: Request) -> Iterator[Step]:
        path = request.path
        yield page(pages[path]) if path in pages else page({}, "404 Not Found")

    with Loopback(script) as server:
        client = Client(address.parse(server.url), api_key="", insecure=False, stall_s=5.0)
        try:
            return stated(client, "", engine)
        finally:
            client.close()


def test_vllms_page() -> None:
    own = {"profiler": "torch", "torch_profiler_dir": "/d", "torch_profiler_with_stack": True}
    config = {"profiler_config": own, "parallel_config": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}}
    found = asked({"/server_info?config_format=json": {"vllm_config": config}}, "vLLM")
    assert (found.folder, found.stacks, found.ranks) == ("/d", True, 4)


def test_sglangs_page() -> None:
    found = asked({"/get_server_info": {"tp_size": 2, "dp_size": 1, "pp_size": 1}}, "SGLang")
    assert found.ranks == 2


@pytest.mark.parametrize("hostile", [{"vllm_config": "text"}, {"vllm_config": {"profiler_config": [1]}}, {}])
def test_pages_that_say_nothing(hostile: object) -> None:
    found = asked({"/server_info?config_format=json": hostile}, "vLLM")
    assert found.folder == ""


def test_sglang_is_told_where_and_what() -> None:
    """Its body, and a second start that it refuses with HTTP 500 and no reason; nothing ever asks it by GET."""
    bodies: list[dict[str, Any]] = []

    def script(request: Request) -> Iterator[Step]:
        assert request.method != "GET", "which would start a profile"
        if request.method == "OPTIONS":
            yield page({}, "405 Method Not Allowed")
        elif request.path == "/start_profile":
            bodies.append(request.json)
            yield page("Internal Server Error", "500 Internal Server Error") if len(bodies) > 1 else page("Start.\n")
        else:
            yield page("Stop profiling. This will take some time.\n")

    with Loopback(script) as server:
        ours, second = (endpoint("SGLang", connected(server), "", wait_s=5.0, output="/traces") for _ in range(2))
        ours.check()
        ours.start("here-prefill", 512)
        with pytest.raises(Refused, match="running already"):
            second.start("there", 512)
        second.stop()
        assert not server.asked("/stop_profile"), "it is not the second one's to stop"
        ours.stop()
        assert len(server.asked("/stop_profile")) == 1
        ours.close()
        second.close()
    assert bodies[0] == {
        "output_dir": "/traces",
        "profile_prefix": "here-prefill",
        "activities": ["CPU", "GPU"],
        "profile_by_stage": False,
        "with_stack": False,
        "record_shapes": True,
    }


def connected(server: Loopback) -> Client:
    return Client(address.parse(server.url), api_key="", insecure=False, stall_s=5.0)


@pytest.mark.parametrize(("engine", "words"), [("llama.cpp", "--engine llama.cpp"), ("unknown", "does not say")])
def test_engines_without_one(engine: str, words: str) -> None:
    client = Client(address.parse("http://127.0.0.1:1"), api_key="", insecure=False, stall_s=1.0)
    with pytest.raises(UsageError, match=words):
        endpoint(engine, client, "", wait_s=1.0)


def test_when_a_file_is_whole(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": []}).encode()
    whole = {"a.json": text + b"\n", "b.json.gz": gzip.compress(text), "c.nsys-rep": b"x"}
    broken = {
        "d.json": text[:-1],
        "e.json.gz": gzip.compress(text)[:-5],
        "f.json.gz": b"text",
        "g.json": b"",
        "h.sqlite": b"",
    }
    for name, data in {**whole, **broken}.items():
        (tmp_path / name).write_bytes(data)
    assert [name for name in whole if files.cut(tmp_path / name)] == []
    assert [name for name in broken if not files.cut(tmp_path / name)] == []


def _arriving(folder: Path, arrivals: dict[int, str]) -> list[str]:
    """The names of what counts as ours, when files arrive after so many looks; no time passes."""
    looks = 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks in arrivals:
            (folder / arrivals[looks]).write_text("{}")

    found = files.wait(folder, {}, "ours", 1, wait_s=60.0, sleep=sleep)
    return [path.name for path in found.whole]


def test_somebody_elses_file_is_not_taken_for_ours_that_is_late(tmp_path: Path) -> None:
    assert _arriving(tmp_path, {1: "rank0.1.json", 8: "ours-prefill_rank0.2.json"}) == ["ours-prefill_rank0.2.json"]


def test_an_engine_that_takes_no_prefix_is_believed_in_the_end(tmp_path: Path) -> None:
    assert _arriving(tmp_path, {1: "rank0.1.json"}) == ["rank0.1.json"]


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (["docker-proxy", "/usr/bin/docker-proxy", "-proto", "tcp", "-host-port", "8000"], False),
        (["ssh", "ssh", "-NL", "8000:localhost:8000", "gpu-1"], False),
        (["kubectl", "kubectl", "port-forward", "svc/llm", "8000"], False),
        (["nginx", "nginx: worker process"], False),
        (["vllm", "/usr/bin/python3", "/usr/bin/vllm", "serve", "m"], True),
        (["pt_main_thread", "/opt/venv/bin/python3", "serve.py"], True),
        (["sglang::http_ser", "sglang::http_server"], True),
        (["python3.11", "python", "my_server.py"], True),
        ([], False),
    ],
)
def test_what_forwards_a_port_is_no_engine_of_this_machine(words: list[str], engine: bool) -> None:
    assert serves(words) is engine
