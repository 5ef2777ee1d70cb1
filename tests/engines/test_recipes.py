"""Recipes: every flag is one that its profiler has, every command one that a shell takes, and `send` really sends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from phasewise.engines import recipes
from phasewise.errors import UsageError
from phasewise.record.recipe import EngineName, Profiler, Recipe
from phasewise.report.terminal.console import to_text
from phasewise.report.terminal.recipes import recipe as printable

pytestmark = pytest.mark.alone

PROFILERS: tuple[Profiler, ...] = get_args(Profiler)
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

# What `nsys profile`, `launch`, `start`, `stop` and `shutdown` say under --help in 2022.4.2, of what the recipes use.
NSYS = {
    "profile": "trace sample cpuctxsw trace-fork-before-exec cuda-graph-trace capture-range capture-range-end "
    "force-overwrite output",
    "launch": "session-new trace trace-fork-before-exec cuda-graph-trace",
    "start": "session sample cpuctxsw force-overwrite output",
    "stop": "session",
    "shutdown": "session kill",
}
# What `ncu --help` says in 2022.3.0; --graph-profiling came later.
NCU = (
    "target-processes profile-from-start nvtx nvtx-include kernel-name replay-mode cache-control clock-control section "
    "launch-count launch-skip force-overwrite export graph-profiling"
)


def existing() -> list[Recipe]:
    """Every recipe that there is."""
    pairs = ((profiler, engine) for profiler in PROFILERS for engine in ENGINES)
    return [recipes.recipe(*pair) for pair in pairs if pair != ("torch", "llama.cpp")]


ALL = existing()
IDS = [f"{found.profiler}-{found.engine}" for found in ALL]


def shell(found: Recipe) -> list[str]:
    """Everything that is for a shell."""
    texts = [command.text for command in found.commands] + [step.run for step in found.steps if step.run]
    return [text for text in texts if not text.startswith("import ")]


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_a_recipe_is_whole(found: Recipe) -> None:
    assert found.commands
    assert found.steps
    assert len(found.causes) >= 3
    for command in found.commands:
        assert command.parts
        assert all(part.why and part.source and "\n" not in part.why for part in command.parts)
        if not command.text.startswith("import "):
            assert all(part.text in command.text for part in command.parts)
    assert all(cause.cure and cause.source for cause in found.causes)
    assert not re.search(r"@\w+@", "".join([*shell(found), *(step.say for step in found.steps)]))


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_what_is_to_be_copied_fits_and_a_shell_takes_it(found: Recipe) -> None:
    for text in [command.text for command in found.commands] + [step.run for step in found.steps]:
        assert max(map(len, text.splitlines()), default=0) <= 76
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("skipped: no bash")
    for text in shell(found):
        done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, timeout=10, check=False)
        assert (done.returncode, done.stderr) == (0, ""), text


@pytest.mark.parametrize("found", [one for one in ALL if one.profiler == "nsys"], ids=lambda one: one.engine)
def test_every_flag_of_nsys_is_one_of_its_own(found: Recipe) -> None:
    seen = 0
    for text in shell(found):
        for verb, rest in re.findall(r"nsys (\w+)((?:[^\n]|\\\n)*)", text.replace("\\\n", " ")):
            own = re.split(r"\b(?:vllm|python3?|trtllm-serve|llama-server)\b", rest)[0]
            flags = re.findall(r"--([a-z-]+)", own)
            seen += len(flags)
            assert set(flags) <= set(NSYS[verb].split()), (verb, flags)
    assert seen > 8


@pytest.mark.parametrize("found", [one for one in ALL if one.profiler == "ncu"], ids=lambda one: one.engine)
def test_every_flag_of_ncu_is_one_of_its_own(found: Recipe) -> None:
    for command in found.commands:
        own = re.split(r"\b(?:vllm serve|python3? |trtllm-serve|llama-bench)", command.text)[0]
        flags = re.findall(r"--([a-z-]+)", own)
        assert len(flags) > 8
        assert set(flags) <= set(NCU.split())


def test_the_two_modes_of_nsys_are_apart() -> None:
    for found in (one for one in ALL if one.profiler == "nsys"):
        times, mix = (command.text for command in found.commands)
        assert "--cuda-graph-trace=graph" in times
        assert "--cuda-graph-trace=node" not in times
        assert "--cuda-graph-trace=node" in mix


def test_collectives_are_left_out_of_replay_and_matmuls_are_not() -> None:
    text = recipes.recipe("ncu", "vllm").commands[0].text
    (pattern,) = re.findall(r"--kernel-name 'regex:([^']*)'", text)
    collectives = (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t",
        "cross_device_reduce_1stage",
        "multimem_all_reduce_kernel",
        "allreduce_fusion_kernel_oneshot_lamport",
        "oneShotAllReduceKernel",
    )
    kept = ("sm90_xmma_gemm_bf16bf16", "reshape_and_cache_flash_kernel", "reduce_kernel", "flash_fwd_splitkv_kernel")
    assert not [name for name in collectives if re.search(pattern, name)]
    assert all(re.search(pattern, name) for name in kept)


def test_the_marks_that_ncu_filters_by_are_those_that_phase_writes() -> None:
    from phasewise.record.marks import range_name, step_name
    from phasewise.record.trace import Tokens

    prefill, decode = (
        re.findall(r"--nvtx-include 'regex:([^']*)/'", command.text)[0]
        for command in recipes.recipe("ncu", "own").commands
    )
    tokens = Tokens(requests=1, tokens=2000)
    for name in (range_name("prefill", tokens), step_name("prefill", tokens, None)):
        assert re.search(prefill, name)
        assert not re.search(decode, name)
    assert re.search(decode, range_name("decode"))


def test_what_there_is_not_is_said_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"--print nsys --engine llama\.cpp"):
        recipes.recipe("torch", "llama.cpp")


def test_a_row_with_a_misspelt_field_is_no_row() -> None:
    with pytest.raises(msgspec.ValidationError, match="sauce"):
        msgspec.toml.decode(
            b'[[part]]\nplace = "env"\ntext = "A=1"\nwhy = "w"\nsauce = "s"\n', type=dict[str, list[recipes.PartRow]]
        )


def test_the_code_for_ones_own_program_compiles() -> None:
    compile(recipes.recipe("torch", "own").commands[0].text, "snippet", "exec")


@pytest.mark.parametrize("width", [30, 80])
@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_what_is_printed_can_be_pasted(found: Recipe, width: int) -> None:
    """Python, in a file or in a shell's quotes, takes blanks before its lines for its own; nothing is broken or cut."""
    printed = f"\n{to_text(printable(found), width)}"
    for text in (*(command.text for command in found.commands), *(step.run for step in found.steps if step.run)):
        assert f"\n{text}\n" in printed


def test_send_sends_what_it_says() -> None:
    """The shell function of the recipes against a server that counts tokens."""
    bash, curl, python = (shutil.which(name) for name in ("bash", "curl", "python3"))
    if not (bash and curl and python):
        pytest.skip("skipped: no bash, curl or python3")
    serve = "from phasewise.cli import main; main(['simulate', '--port', '0', '--for', '30s', '--json'])"
    server = subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        printed = to_text(printable(recipes.recipe("nsys", "vllm")), 80)
        function = re.search(r"^ *send\(\) \{.*?echo; \}$", printed, re.DOTALL | re.MULTILINE)
        assert function
        lines = f"{function[0].replace('head -c 200', 'cat')}\nsend {said['url']} {said['plan']['model']} 300 7\n"
        done = subprocess.run([bash], input=lines, capture_output=True, text=True, timeout=30, check=False)
        usage = json.loads(done.stdout)["usage"]
    finally:
        server.terminate()
        server.communicate()
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (300, 7)


def test_a_real_nsys_takes_the_commands(tmp_path: Path) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("skipped: no nsys")
    shown = subprocess.run([nsys, "profile", "--help"], capture_output=True, text=True, timeout=30, check=False).stdout
    text = recipes.recipe("nsys", "own").commands[0].text
    assert not [flag for flag in re.findall(r"--[a-z-]+", text) if flag not in shown]
