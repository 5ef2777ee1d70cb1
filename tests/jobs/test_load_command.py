"""`phasewise load` as its user meets it: the plan, refusals, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phasewise.cli import run
from phasewise.engines.simulated import Plan, SimulatedServer


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int | tuple[int, ...] = 0) -> dict[str, Any]:
    codes = (code,) if isinstance(code, int) else code
    assert run(["load", *arguments, "--json"]) in codes
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_dry_run_sends_nothing_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    nowhere = "http://127.0.0.1:9"  # would be refused
    found = document(capsys, nowhere, "--rate", "5", "--duration", "10s", "--dry-run", "--out", str(out))
    plan = found["plan"]
    assert found["sent"] == 0
    assert plan["prompt_tokens"] == 512 * plan["requests"]
    assert plan["seconds"] == 10
    assert not out.exists()
    assert run(["load", nowhere, "--users", "3", "--dry-run", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "unknown: nothing was measured yet" in " ".join(text.split())
    assert "Nothing was sent" in text


def untold(value: object, document: dict[str, Any], path: str = "") -> list[str]:
    """Paths of numbers without an origin, and of nulls without a reason."""
    if isinstance(value, dict):
        items = [(f"{path}.{name}" if path else name, one) for name, one in value.items()]
        return [found for at, one in items for found in untold(one, document, at)]
    if isinstance(value, list):
        return [found for at, one in enumerate(value) for found in untold(one, document, f"{path}.{at}")]
    if value is None:
        return [] if path in document["reasons"] else [path]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return [path] if number and path not in document["provenance"] else []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "20", "--duration", "1s", "--ttft", "1s"),
        ("--users", "2", "--duration", "1s"),
        ("--rate", "5", "--dry-run"),
    ],
    ids=" ".join,
)
def test_every_number_says_where_it_is_from_and_every_null_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    small = ("--prompt", "16", "--answer", "4", "--out", str(tmp_path / "runs"))
    with SimulatedServer(Plan()) as server:
        found = document(capsys, server.url, *arguments, *small, code=(0, 3))
    told = {name: part for name, part in found.items() if name not in ("schema", "provenance", "reasons")}
    assert untold(told, found) == []
    assert found["provenance"]["plan.requests"]["provenance"] == "assumed"
    if "--dry-run" not in arguments:
        assert found["provenance"]["ttft.count"] == {
            "unit": "request",
            "provenance": "measured",
            "source": "values in it",
        }
        assert found["provenance"]["itl.count"]["unit"] == "token"
        assert set(found["starts"]) == {"-1", "0"}


def test_what_is_in_the_air_may_be_broken_off_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--users", "3", "--drain", "0", "--dry-run", "--out", str(tmp_path / "runs"))
    assert document(capsys, "http://127.0.0.1:9", *arguments)["plan"]["drain_s"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--users 8"),
        (("--users", "2", "--rate", "3"), "give one of them"),
        (("--rate", "0"), "sends nothing"),
        (("--rate", "nan"), "--rate 2.5"),
        (("--users", "2", "--arrivals", "poisson"), "give --rate too"),
        (("--rate", "2", "--arrivals", "gamma"), "needs --burstiness"),
        (("--rate", "2", "--arrivals", "constant", "--burst", "3"), "belongs to --arrivals burst"),
        (("--rate", "2", "--speed", "2"), "--replay FILE"),
        (("--rate", "2", "--find-rate"), "--ttft"),
        (("--rate", "2", "--prompt", "ten"), "no length"),
        (("--rate", "2", "--mix", "1:2:x"), "--mix"),
        (("--rate", "2", "--tokens", "5"), "leave nothing to send"),
        (("--replay", "/nonexistent.csv"), "cannot be read"),
        (("--rate", "2", "--ttft", "soon"), "--ttft 'soon' is not a time"),
        (("--rate", "2", "--duration", "0"), "--duration '0' is not a time"),
        (("--replay", "log.csv", "--for", "0"), "--for '0' is not a time"),
        (("--rate", "2", "--speed", "0"), "no speed"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", "http://127.0.0.1:9", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_a_model_in_process_takes_no_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", f"hf:{tmp_path}", "--users", "2", "--out", str(tmp_path / "runs")]) == 2
    assert "serve it, and give its URL" in capsys.readouterr().err


def test_bounds_limits_and_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedServer(Plan()) as server:
        arguments = (
            server.url,
            "--rate",
            "40",
            "--prompt",
            "50",
            "--answer",
            "5",
            "--requests",
            "45",
            "--out",
            str(tmp_path),
        )
        found = document(capsys, *arguments, "--ttft", "2s", "--tpot", "1s", code=(0, 3))
        assert run(["report", str(next(tmp_path.iterdir())), "--as", "html"]) == 0
        page = capsys.readouterr().out
        assert run(["report", str(next(tmp_path.iterdir())), "--as", "markdown"]) == 0
        marked = capsys.readouterr().out
    assert found["plan"]["requests"] == found["sent"] == 45
    assert found["plan"]["cut"] == "--requests 45"
    assert found["goodput"]["met"] == 1
    assert found["verdict"]["holds"] == "holds"
    assert found["provenance"]["ttft.points.p50"]["provenance"] == "measured"
    assert found["reasons"]["found"]
    assert list(found)[-3:] == ["recap", "provenance", "reasons"]
    assert {"requests.parquet", "chunks.parquet"} == set(found["rows"])
    assert found["verdict"]["text"] in page
    assert "<svg" in page
    assert marked.startswith("**")
    assert "### Recap" in marked


def test_limits_that_break_are_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedServer(Plan()) as server:
        arguments = ("--users", "2", "--prompt", "50", "--answer", "20", "--requests", "40", "--out", str(tmp_path))
        assert run(["load", server.url, *arguments, "--tpot", "1ms", "--ttft", "10s"]) in (1, 3)
    text = " ".join(capsys.readouterr().out.split())
    assert "TPOT (decode) breaks first" in text or "No verdict: the client was the bottleneck" in text


def test_a_burst_is_not_trimmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedServer(Plan()) as server:
        arguments = ("--rate", "20", "--burst", "10", "--duration", "2s", "--answer", "3", "--out", str(tmp_path))
        found = document(capsys, server.url, *arguments, code=(0, 3))
    assert found["sent"] == 40
    assert found["window"]["requests"] == 40
    assert found["steady"] is None
