"""`phasewise logs` as its user meets it: text, JSON, exit codes, and what it must not touch."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from phasewise.cli import run

SUBJECT = ("--model", "llama-3-8b", "--on", "h100-sxm")


def log(path: Path, prompt: int = 2000, answer: int = 300, rows: int = 10) -> Path:
    path.write_text("time,prompt_tokens,answer_tokens\n" + "".join(f"{i},{prompt},{answer}\n" for i in range(rows)))
    return path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["logs", *arguments, "--json"]) == 0
    out = capsys.readouterr()
    assert out.err == ""
    found: dict[str, Any] = json.loads(out.out)
    return found


def walk(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


def test_the_reference_request_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The design's reference case: prefill of 2,000 tokens 29.3 ms of math, a decode step 4.56 ms, decode over 95%.
    found = document(capsys, str(log(tmp_path / "log.csv")), *SUBJECT, "--batch", "1")
    assert found["prompt"]["tokens"] == 20_000
    assert found["answer"]["tokens"] == 3_000
    assert found["split"]["prefill_s"] == pytest.approx(10 * 29.5e-3, rel=0.02)
    assert found["split"]["decode_s"] == pytest.approx(10 * 299 * 4.56e-3, rel=0.02)
    assert found["split"]["decode_share"] > 0.95
    assert found["verdict"]["owner"] == found["split"]["owner"] == "decode"
    assert found["bounds"] == {"prefill": "compute", "decode": "memory"}
    assert found["requests"] == found["files"][0]["requests"] == 10
    assert found["span_s"] == 9
    assert found["rates"]["prompt_tokens"] == pytest.approx(20_000 / 9)
    assert found["tokens_in_per_token_out"] == pytest.approx(20 / 3)
    assert list(found)[-3:] == ["recap", "provenance", "reasons"]
    for phase in ("prefill", "decode"):
        assert {"bound", "yardstick", "value", "floor alone", "fixes"} <= set(found["recap"][phase])


def test_every_number_says_where_it_is_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(log(tmp_path / "log.csv")), *SUBJECT)
    expected = {
        "prompt.tokens": "reported",
        "files.0.answer_tokens": "reported",
        "span_s": "reported",
        "split.prefill_s": "predicted",
        "batches.2.decode_s": "predicted",
        "files.0.split.decode_s": "predicted",
    }
    assert expected.items() <= {path: one["provenance"] for path, one in found["provenance"].items()}.items()
    assert all(walk(found, path) is not None for path in expected)


def test_what_is_not_known_is_null_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(log(tmp_path / "log.csv")))
    for path in ("model", "accelerator", "split", "reuse", "beyond_context", "files.0.split", "verdict.owner"):
        assert walk(found, path) is None
        assert found["reasons"][path]


def test_the_text_names_the_owner_first_and_recaps_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(log(tmp_path / "first.csv", 4000, 20)), str(log(tmp_path / "second.csv", 6000, 40))]
    assert run(["logs", *paths, *SUBJECT, "--batch", "64"]) == 0
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert text.startswith("Prefill owns ")
    assert "at a decode batch of 64; alone, at batch 1, " in words
    assert "first.csv" in text
    assert "second.csv" in text
    assert "--model llama-3-8b --on h100-sxm --prompt 4000 --answer 20" in words
    assert "measure first" in text.split("RECAP")[1]
    assert max(map(len, text.splitlines())) <= 80


def test_a_command_to_copy_keeps_names_with_spaces_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "log.csv")
    assert run(["logs", str(path), "--model", "llama-3-8b", "--on", "NVIDIA H100 80GB HBM3"]) == 0
    assert "--on 'NVIDIA H100 80GB HBM3'" in " ".join(capsys.readouterr().out.split())


def test_names_from_the_file_system_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "\x1b[31mred\x1b]0;title\x07.csv")
    assert run(["logs", str(path), *SUBJECT]) == 0
    text = capsys.readouterr().out
    assert "red" in text
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"time,prompt_tokens,answer_tokens\n1,2,-3\n", "line 2 has '-3'"),
        (b"\x1f\x8b\x08\x00broken", "gzip"),
        (b"%PDF-1.7 \0\0\0", "not a text file"),
    ],
)
def test_a_bad_log_is_one_sentence_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, says: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(data)
    assert run(["logs", str(path), *SUBJECT, "--json"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert says in out.err
    assert str(path) in out.err


def test_a_mistake_of_the_user_is_one_sentence_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(log(tmp_path / "log.csv"))
    for arguments in (
        [],
        [path, "--batch", "0"],
        [path, "--model", "no-such-model"],
        [path, "--on", "no-such-card"],
        [path, "--weights", "int4"],
        [path, path],
        [str(tmp_path / "none.csv")],
        [str(tmp_path)],
    ):
        assert run(["logs", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_nothing_is_written_and_no_network_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    path = log(tmp_path / "log.csv")
    path.chmod(0o444)
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.chdir(tmp_path)
    assert run(["logs", "log.csv", *SUBJECT]) == 0
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    assert os.listdir(tmp_path) == ["log.csv"]


def test_ctrl_c_while_reading_exits_130(tmp_path: Path) -> None:
    pipe = tmp_path / "endless"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", "from phasewise.cli import main; main()", "logs", str(pipe)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        with pipe.open("w") as into:  # opens once the command reads
            into.write("time,prompt_tokens,answer_tokens\n1,2,3\n")
            into.flush()
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
