"""What `phasewise judge` puts before a person and a program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_report_html import Page

import results_by_hand as hand
from phasewise.cli import run

pytestmark = pytest.mark.usefixtures("elsewhere")

SUBJECT = ("--model", "llama-3-8b", "--on", "h100-sxm")
SEED = ("--ttft", "50ms", "--prefill-tokens", "2000", "--tpot", "5.5ms", "--answer", "300")
"""The seed's request: 2,000 in, 300 out, prefill about 50 ms, decode 5 to 6 ms a token."""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["judge", *arguments]) == code
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    return text


def saved(tmp_path: Path, content: object, name: str = "results.json") -> str:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    if isinstance(tree, dict):
        return {p: v for key, value in tree.items() for p, v in leaves(value, f"{path}.{key}" if path else key).items()}
    if isinstance(tree, list):
        return {p: v for i, value in enumerate(tree) for p, v in leaves(value, f"{path}.{i}").items()}
    return {path: tree}


def test_the_seeds_request_is_answered_in_the_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, *SEED, *SUBJECT)
    words = " ".join(text.split())
    assert words.startswith("Decode owns 97% of a 2,000-in/300-out request (1.69 s) and is memory-bound: 83.0% MBU")
    assert "58.6% MFU of 989 TFLOP/s (datasheet)" in words
    assert "0.30% MFU is normal for decode" in words
    for title in ("PREFILL: COMPUTE-BOUND", "DECODE: MEMORY-BOUND", "WHAT TO CHANGE FIRST", "RECAP"):
        assert title in text


@pytest.mark.parametrize("name", hand.everything())
def test_every_tool_is_shown_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = saved(tmp_path, hand.everything()[name])
    text = shown(capsys, path, *SUBJECT)
    assert text.startswith("Decode owns ")
    assert "THE TOOL'S WORDS AND OURS" in text
    assert run(["judge", path, *SUBJECT, "--json"]) == 0
    out = capsys.readouterr()
    found = json.loads(out.out)
    assert out.err == ""
    assert list(found)[-3:] == ["recap", "provenance", "reasons"]
    values = leaves({key: value for key, value in found.items() if key not in ("provenance", "reasons")})
    numbers = {p for p, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    assert numbers - found["provenance"].keys() - {"schema"} == set()
    nulls = {p for p, v in values.items() if v is None}
    assert nulls <= found["reasons"].keys()
    assert all(found["reasons"][path] for path in nulls)


def test_what_the_tool_said_is_reported_and_what_we_add_is_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["judge", saved(tmp_path, hand.vllm()), *SUBJECT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    origins = {path: one["provenance"] for path, one in found["provenance"].items()}
    for path in ("prefill.step_s", "prefill.mfu", "decode.mbu", "split.total_s", "rows.0.figures.0.value"):
        assert origins[path] == "reported", path
    for path in ("prefill.floor_s", "decode.floor_s", "fixes.0.saves_s"):
        assert origins[path] == "predicted", path
    figure = found["rows"][0]["figures"][0]
    assert {"called", "defined", "means", "conversion", "how", "value"} <= figure.keys()


def test_an_alarm_stops_the_verdict_and_lists_causes(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--prefill-tokens", "1999", "--ttft", "5.0ms", *SUBJECT, code=3)
    assert text.startswith("No verdict: prefill at 1,999 tokens reads")
    assert "STOP" in text
    assert "sparse peak" in text
    assert "No fix is ranked" in text


def test_without_a_model_times_are_shown_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(capsys, *SEED).split())
    assert text.startswith("Decode owns 97% of a 2,000-in/300-out request")
    assert "name it with --model" in text
    assert "name it with --on" in text
    assert "50.0 ms (reported)" in text


def test_a_sweep_has_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(json.dumps(hand.vllm(max_concurrency=n, duration=10 * hand.TOTAL / n)) for n in (1, 4, 8))
    text = shown(capsys, saved(tmp_path, lines), *SUBJECT)
    assert "ROWS" in text
    assert "DECODE OVER BATCH" in text
    assert "concurrency 4" in text
    assert ">= " in text
    assert "gain predicted" in text


def test_names_from_a_file_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = hand.vllm(model_id="\x1b]0;title\x07[bold]x[/bold]\x1b[31mred")
    text = shown(capsys, saved(tmp_path, hostile, "\x1b[31mred.json"), "--on", "h100-sxm")
    assert all(line.isprintable() for line in text.splitlines())
    assert "red" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to judge"),
        (("--tok-s", "120", *SUBJECT), "prefill or decode? give it as --prefill-tok-s or --decode-tok-s"),
        (("--ttft", "50"), "for example 50ms"),
        ((*SEED, "--on", "h100-sxm", "--weights", "int4"), "--model"),
        ((*SEED, "--model", "no-such-model", "--on", "h100-sxm"), "no model in the catalogue"),
        (("--batch", "0"), "batch"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(["judge", *arguments, "--json"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert says in out.err


def test_a_file_and_numbers_are_two_measurements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", saved(tmp_path, hand.vllm()), "--ttft", "50ms"]) == 2
    assert "two measurements" in capsys.readouterr().err


def test_the_file_is_left_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(saved(tmp_path, hand.vllm()))
    before = path.read_bytes()
    shown(capsys, str(path), *SUBJECT)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def again(capsys: pytest.CaptureFixture[str], form: str) -> str:
    assert run(["report", "--as", form]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", hand.everything())
def test_a_verdict_is_a_run_that_is_shown_again_in_every_form(
    tmp_path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = saved(tmp_path, hand.everything()[name])
    assert run(["judge", path, *SUBJECT, "--json"]) == 0
    found = capsys.readouterr().out
    (folder,) = (elsewhere / "phasewise-runs").iterdir()
    assert {file.name for file in folder.iterdir()} == {"run.json", "report.html"}
    assert json.loads(again(capsys, "json")) == json.loads(found)
    verdict = json.loads(found)["verdict"]["text"]
    text = again(capsys, "text")
    assert " ".join(text.split()).startswith(verdict)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert f"phasewise report phasewise-runs/{folder.name}" in " ".join(text.split())
    page = Page(again(capsys, "html"))
    data = next(text for attributes, text in page.scripts if attributes.get("type") == "application/json")
    assert json.loads(data) == json.loads(found)
    marked = again(capsys, "markdown")
    for title in ("### What to change first", "### Recap", "The tool's words and ours"):
        assert title in marked
    for mfu in re.findall(r"[\d.]+% M[FB]U", text):
        assert mfu.split()[0] in marked
        assert mfu.split()[0] in (folder / "report.html").read_text()


def test_names_in_a_page_and_in_markdown_are_text(
    tmp_path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = hand.vllm(model_id="<script>alert(1)</script>[x](http://e.org)")
    assert run(["judge", saved(tmp_path, hostile, "<i>x.json"), "--on", "h100-sxm"]) == 0
    capsys.readouterr()
    assert "<script>alert" not in again(capsys, "html")
    assert "<i>x" not in again(capsys, "html")
    marked = again(capsys, "markdown")
    assert "<script>" not in marked
    assert "<i>" not in marked
    assert "[x](" not in marked


def test_where_a_verdict_goes_and_when_it_cannot(
    tmp_path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["judge", *SEED, "--out", str(tmp_path / "there")]) == 0
    assert [path.name.endswith("-stated") for path in (tmp_path / "there").iterdir()] == [True]
    capsys.readouterr()
    (elsewhere / "file").touch()
    assert run(["judge", *SEED, "--out", "file"]) == 2
    out = capsys.readouterr()
    assert (out.out, out.err.count("\n")) == ("", 1)
    assert "--out" in out.err

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("phasewise.jobs.judge.save", full)
    assert run(["judge", *SEED]) == 3
    out = capsys.readouterr()
    assert "run.json (No space left on device)" in out.err
    assert "RECAP" in out.out
    assert "Shown again by" not in out.out
    assert not list(elsewhere.glob("phasewise-runs/*"))


def test_a_mistake_leaves_no_folder(tmp_path: Path, elsewhere: Path) -> None:
    assert run(["judge", "--tok-s", "120", *SUBJECT]) == 2
    assert run(["judge", saved(tmp_path, "not a result"), *SUBJECT]) == 2
    assert not (elsewhere / "phasewise-runs").exists()
