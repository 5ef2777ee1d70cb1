"""Damage of every kind to small files of every form: the whole way from bytes to the section, for a minute.

Whatever comes in, either a Traced comes out or a sentence. The seed is printed with a failure; it makes it again.
"""

import gzip
import json
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import kineto_files
import nsys_files
import pytest
import rocm_files
import test_ncu_csv

from phasewise.errors import UsageError
from phasewise.observe.traces import capture, cpu, families, section, steps
from phasewise.observe.traces.opening import read_all

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
SECONDS = 60.0
RULES = families.rules()

SCRAPS = [
    *(b"NaN", b"-Infinity", b"1e999", b"-1", b"99999999999999999999", b"null", b"1.5.2", b"0x7f", b"=="),
    *(b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xe2\x82", b"\n", b"\r\n", b"<script>"),
    *(b'"', b"\\", b"'", b";", b"}", b"]", b",", b"{" * 60, b"[" * 60, b'{"a":' * 12),
]


def kineto() -> bytes:
    """One in five of the events that vLLM's profiler wrote, about as many as a screen holds."""
    whole = json.loads(gzip.decompress((FIXTURES / "vllm_cpu.json.gz").read_bytes()))
    marks = [event for event in whole["traceEvents"] if event.get("cat") == "user_annotation"]
    whole["traceEvents"] = sorted(marks + whole["traceEvents"][:200], key=lambda event: float(event.get("ts", 0)))
    return json.dumps(whole).encode()


def device() -> bytes:
    return json.dumps(kineto_files.document(kineto_files.events(60))).encode()


def nsys(folder: Path) -> bytes:
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_files.kernel(100 * i, 100 * i + 60, i) for i in range(1, 40)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_files.call(100 * i - 50, 100 * i - 40, i) for i in range(1, 40)],
        "NVTX_EVENTS": [nsys_files.band(0, 2000, "prefill"), nsys_files.band(2000, 4100, "decode")],
    }
    return nsys_files.export(folder / "whole.sqlite", tables).read_bytes()


def rocprof() -> bytes:
    records = {"kernel_dispatch": [rocm_files.dispatch(10 * i, 10 * i + 5, i) for i in range(30)]}
    return rocm_files.document(rocm_files.process(records))


def whole_files(folder: Path) -> dict[str, bytes]:
    """Files that are read without a complaint."""
    detail = test_ncu_csv.detail
    ncu = test_ncu_csv.details(
        *(detail(i, metric, unit, value) for i in range(4) for metric, unit, value in (
            ("Duration", "us", "6.75"), ("Compute (SM) Throughput", "%", "9.2"), ("Memory Throughput", "%", "19.7"),
        ))
    )  # fmt: skip
    kernel_sum = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    return {
        "kineto": kineto(),
        "device": device(),
        "nsys": nsys(folder),
        "nvtx": (FIXTURES / "nsys_cpu_nvtx.sqlite").read_bytes(),
        "rocprof": rocprof(),
        "ncu": ncu.encode(),
        "sums": (kernel_sum + '60.0,600,6,100.0,100.0,90,110,3.0,"gemvx::kernel<int, 2>"\n' * 8).encode(),
    }


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 12)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def drop(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randint(1, 400) :]


def double(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[: start + chance.randint(1, 400)] + data[start:]


def scrap(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(data))
        data = data[:place] + chance.choice(SCRAPS) + data[place + chance.randint(0, 3) :]
    return data


def digits(data: bytes, chance: random.Random) -> bytes:
    """Some digits become others: times that run backwards, ids that meet, sizes that cannot be."""
    changed = bytearray(data)
    places = [place for place, byte in enumerate(data) if 48 <= byte < 58]
    for place in chance.sample(places, min(len(places), chance.randint(1, 30))):
        changed[place] = chance.choice(b"0123456789-.")
    return bytes(changed)


def packed(data: bytes, chance: random.Random) -> bytes:
    return flip(gzip.compress(data), chance) if chance.random() < 0.5 else cut(gzip.compress(data), chance)


DAMAGE: list[Callable[[bytes, random.Random], bytes]] = [cut, flip, drop, double, scrap, digits, packed]


def through(path: Path) -> bool:
    """The way of `phasewise trace`; False when a sentence refuses the file."""
    try:
        found, _ = capture.named(cpu.on_cpu(read_all([path])))
        traced = section.section(found, steps.split(found), RULES)
    except UsageError as refused:
        said = str(refused)
    else:
        said = ""
    if said:
        assert "\n" not in said
        assert len(said) < 2000
        return False
    assert traced.kernels_total >= 0
    assert traced.busy_fraction is None or 0 <= traced.busy_fraction <= 1.0000001
    assert sum(phase.kernels for phase in traced.phases.values()) + traced.outside_kernels == traced.kernels_total
    return True


def damaged(folder: Path, seconds: float) -> tuple[int, int]:
    """Damage until the time is over; how many files were read, and how many refused."""
    whole = whole_files(folder)
    target = folder / "damaged"
    for data in whole.values():
        target.write_bytes(data)
        assert through(target)
    end, seed, read = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        seed += 1
        chance = random.Random(seed)
        form = chance.choice(sorted(whole))
        made = chance.choice(DAMAGE)(whole[form], chance)
        target.write_bytes(made)
        try:
            read += through(target)
        except sqlite3.Error as error:
            pytest.fail(f"seed {seed} ({form}): {error!r}")
        except Exception as error:
            raise AssertionError(f"seed {seed} ({form}): {error!r}") from error
        assert target.read_bytes() == made
    return read, seed - read


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_damage_for_a_minute(tmp_path: Path) -> None:
    read, refused = damaged(tmp_path, SECONDS)
    assert read > 100
    assert refused > 100


def test_damage_for_a_moment(tmp_path: Path) -> None:
    read, refused = damaged(tmp_path, 2.0)
    assert read + refused > 5
