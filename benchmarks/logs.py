"""`phasewise logs` on ten million made-up requests: seconds, memory, and totals against those that were written.

    python benchmarks/logs.py [--rows 10000000] [--folder DIR]

Writes each log (up to 1.4 GB), runs the command in a process of its own, prints a line per form,
and removes the log. Exit code 1 when a total is wrong or a limit is broken.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SECONDS, BYTES = 20.0, 1e9
"""What ten million rows may take."""

PART = 250_000


class Part(NamedTuple):
    """Requests: seconds from the start, tokens in, tokens out."""

    time: np.ndarray
    prompt: np.ndarray
    answer: np.ndarray


def parts(rows: int) -> Iterator[Part]:
    """Lengths as in the public traces: log-normal, 1 to 126,000 in and 1 to 2,000 out, one request every 0.36 ms."""
    random = np.random.default_rng(12)
    for first in range(0, rows, PART):
        n = min(PART, rows - first)
        prompt = np.clip(np.exp(random.normal(7.0, 1.2, n)), 1, 126_000).astype(np.int64)
        answer = np.clip(np.exp(random.normal(4.5, 1.2, n)), 1, 2_000).astype(np.int64)
        yield Part((first + np.arange(n)) * 360e-6, prompt, answer)


def azure(part: Part) -> str:
    start = np.datetime64("2023-11-16T18:15:46", "us")
    dates = np.datetime_as_string(start + (part.time * 1e6).astype("timedelta64[us]"), unit="us")
    rows = zip(dates.tolist(), part.prompt.tolist(), part.answer.tolist(), strict=True)
    return "".join(f"{date[:10]} {date[11:]}0,{prompt},{answer}\n" for date, prompt, answer in rows)


def plain(part: Part) -> str:
    rows = zip(part.time.tolist(), part.prompt.tolist(), part.answer.tolist(), strict=True)
    return "".join(f"{time:.3f},{prompt},{answer}\n" for time, prompt, answer in rows)


def mooncake(part: Part) -> str:
    """As many ids as the prompt has blocks of 512 tokens; every third request repeats the blocks of the one before."""
    first = (np.cumsum(-(-part.prompt // 512)) + int(part.time[0] * 1e6)).tolist()
    lines = []
    for i, (at, prompt, answer) in enumerate(zip(part.time, part.prompt.tolist(), part.answer.tolist(), strict=True)):
        start = first[i - 1] if i % 3 == 0 else first[i]
        ids = list(range(start, start + -(-prompt // 512)))
        lengths = f'"input_length": {prompt}, "output_length": {answer}'
        lines.append(f'{{"timestamp": {int(at * 1e3)}, {lengths}, "hash_ids": {ids}}}\n')
    return "".join(lines)


FORMS: tuple[tuple[str, str, Callable[[Part], str]], ...] = (
    ("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", azure),
    ("azure.csv.gz", "TIMESTAMP,ContextTokens,GeneratedTokens\n", azure),
    ("plain.csv", "time,prompt_tokens,answer_tokens\n", plain),
    ("mooncake.jsonl", "", mooncake),
)


def write(path: Path, heading: str, form: Callable[[Part], str], rows: int) -> tuple[int, int]:
    """The log, and its true totals."""
    tokens_in = tokens_out = 0
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        file.write(heading)
        for part in parts(rows):
            file.write(form(part))
            tokens_in += int(part.prompt.sum())
            tokens_out += int(part.answer.sum())
    return tokens_in, tokens_out


def measure(path: Path) -> tuple[float, float, dict[str, Any]]:
    """Wall seconds and peak resident bytes of the whole command, and its document."""
    flags = ["--model", "llama-2-70b", "--on", "h100-sxm", "--devices", "8", "--batch", "32", "--json"]
    command = [sys.executable, "-c", "from phasewise.cli import main; main()", "logs", str(path), *flags]
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"the command failed on {path.name}: exit code {process.returncode}")
        out.seek(0)
        document = json.load(out)
    return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), document


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--form", choices=[name for name, _, _ in FORMS], help="Only this one.")
    given = options.parse_args()
    good = True
    print(f"{'log':<16}{'rows':>12}{'MB':>8}{'seconds':>9}{'rows/s':>12}{'peak MB':>9}  totals")
    for name, heading, form in FORMS:
        if given.form not in (None, name):
            continue
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / name
            totals = write(path, heading, form, given.rows)
            size = path.stat().st_size
            seconds, memory, found = measure(path)
        exact = (found["prompt"]["tokens"], found["answer"]["tokens"]) == totals
        good &= exact and seconds < SECONDS and memory < BYTES
        print(
            f"{name:<16}{given.rows:>12,}{size / 1e6:>8,.0f}{seconds:>9.1f}{given.rows / seconds:>12,.0f}"
            f"{memory / 1e6:>9,.0f}  {'exact' if exact else 'WRONG'}",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
