"""`phasewise trace` as its user meets it: exit codes, one-sentence errors, the JSON, what is saved and what is not."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_run import phasewise

from kineto_by_hand import Kernel, events, write
from phasewise.cli import run
from phasewise.errors import Terminated

MS = 1_000_000
PREFILL = "execute_512_context_1(sq512sk512sqsq262144sqsk262144)_generation_0(sq0sk0sqsq0sqsk0)"
DECODE = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk2048sqsq4sqsk2048)"


def step(start: int, kernel: str, length: int, many: int) -> list[Kernel]:
    """``many`` kernels of ``length`` ns, back to back from ``start``."""
    return [(f"{kernel}_{at % 3}", start + at * length, length) for at in range(many)]


PROMPT = step(10 * MS, "ampere_bf16_gemm_128x128", 2 * MS, 10)
TOKEN = step(40 * MS, "gemvx_kernel", MS, 8)
KERNELS = (*PROMPT, *TOKEN)
BANDS = ((PREFILL, 7 * MS, 22 * MS), (DECODE, 37 * MS, 9 * MS))
"""Launches come 2 ms before their kernels, so each band holds those of its step."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def marked(path: Path, **said: Any) -> Path:
    """A trace with an annotated prefill step and an annotated decode step."""
    return write(path, events(KERNELS, BANDS), **said)


def document(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert run(["trace", *map(str, arguments), "--json"]) == code
    out = capsys.readouterr()
    assert out.err == ""
    found: dict[str, Any] = json.loads(out.out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence of a user's mistake; nothing was saved."""
    assert run(["trace", *map(str, arguments)]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("phasewise: ")
    assert len(out.err.strip().splitlines()) == 1
    assert not Path("phasewise-runs").exists()
    return out.err


def test_the_document_has_what_the_design_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, marked(tmp_path / "a.json"))
    for phase in ("prefill", "decode", "mixed", "unknown"):
        assert {"gpu_time_s", "kernels", "steps", "busy_fraction", "families", "bound"} <= set(found["phases"][phase])
    for one in found["steps"]:
        assert {"phase", "evidence", "start_s", "gpu_time_s", "kernels", "requests", "tokens"} <= set(one)
    for name in ("kernels_total", "gpu_sum_s", "gpu_union_s", "span_s", "busy_fraction", "graph_launches"):
        assert name in found
    assert all({"check", "status", "detail"} <= set(one) for one in found["health"])


def test_the_figures_are_those_of_the_kernels_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, marked(tmp_path / "a.json.gz"))
    assert [(one["phase"], one["kernels"], one["tokens"], one["requests"]) for one in found["steps"]] == [
        ("prefill", 10, 512, 1),
        ("decode", 8, 4, 4),
    ]
    assert found["kernels_total"] == 18
    assert found["gpu_sum_s"] == pytest.approx(28e-3, rel=1e-12)
    assert found["phases"]["prefill"]["gpu_time_s"] == pytest.approx(20e-3, rel=1e-12)
    assert found["phases"]["decode"]["gpu_time_s"] == pytest.approx(8e-3, rel=1e-12)
    # From the first start at 10 ms to the last end at 48 ms.
    assert found["span_s"] == pytest.approx(38e-3, rel=1e-12)
    assert found["busy_fraction"] == pytest.approx(28 / 38, rel=1e-12)


def test_the_accelerator_that_the_trace_names_is_judged_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = marked(tmp_path / "a.json")
    named = document(capsys, path, "--model", "llama-3-8b")
    stated = document(capsys, path, "--model", "llama-3-8b", "--on", "h100-sxm")
    assert named["phases"]["prefill"]["mfu"] == stated["phases"]["prefill"]["mfu"] > 0
    # 512 tokens of 6.98 B parameters, 2 FLOPs each, in 20 ms, of 989 TFLOP/s; attention and lm_head are 2% more.
    assert named["phases"]["prefill"]["mfu"] == pytest.approx(2 * 6.98e9 * 512 / 20e-3 / 989e12, rel=0.03)
    # 16.06 GB of weights, less the embedding, and 2,048 tokens of KV cache in 8 ms, of 3.35 TB/s.
    assert named["phases"]["decode"]["mbu"] == pytest.approx((15.01e9 + 2048 * 131072) / 8e-3 / 3.35e12, rel=0.02)
    unnamed = document(capsys, marked(tmp_path / "b.json", gpu=""), "--model", "llama-3-8b")
    assert unnamed["phases"]["prefill"]["mfu"] is None


def test_more_than_the_machine_can_do_ends_with_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = step(10 * MS, "gemm", 1_000, 10)
    path = write(tmp_path / "a.json", events(quick, ((PREFILL, 7 * MS, 2 * MS),)))
    found = document(capsys, path, "--model", "llama-3-8b", "--on", "h100-sxm", code=3)
    assert found["phases"]["prefill"]["alarm"]


def test_a_truncated_trace_is_used_as_far_as_it_goes_and_called_partial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = marked(tmp_path / "a.json")
    path.write_bytes(path.read_bytes()[:-700])
    found = document(capsys, path, code=3)
    assert found["status"] == "partial"
    assert 0 < found["kernels_total"] < 18
    assert any(one["check"] == "truncated" and one["status"] == "failed" for one in found["health"])


def test_two_traces_stand_side_by_side_by_the_users_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long_ago, today = 1_600_000_000_000_000_000, 1_700_000_000_000_000_000
    one = write(tmp_path / "p.json", events(PROMPT), base=long_ago)
    two = write(tmp_path / "d.json", events(TOKEN), base=today)
    flags = ("--model", "llama-3-8b", "--on", "h100-sxm")
    found = document(capsys, "--prefill", one, "--decode", two, *flags)
    assert found["phases"]["prefill"]["gpu_time_s"] == pytest.approx(20e-3)
    assert found["phases"]["decode"]["gpu_time_s"] == pytest.approx(8e-3)
    assert {(step["rank"], step["phase"]) for step in found["steps"]} == {(0, "prefill"), (1, "decode")}
    assert found["span_s"] == pytest.approx(28e-3)
    checks = {check["check"]: check["status"] for check in found["health"]}
    assert checks["phases as named"] == "passed"
    assert checks["ranks"] == "not_checked"
    assert not {"steps of the ranks", "clocks of the ranks"} & set(checks)


def test_the_devices_of_two_recordings_share_no_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--model", "llama-3-8b", "--on", "h100-sxm")
    one, two = (marked(tmp_path / f"{n}.json", base=1_700_000_000_000_000_000 + n) for n in (0, 1))
    alone = document(capsys, one, *flags)["phases"]["prefill"]["mfu"]
    beside = document(capsys, "--prefill", one, "--decode", two, *flags)["phases"]["prefill"]["mfu"]
    ranks = document(capsys, one, two, *flags)["phases"]["prefill"]["mfu"]
    assert beside == pytest.approx(alone)
    assert ranks == pytest.approx(alone / 2)


def test_a_step_that_says_otherwise_keeps_its_phase_and_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "--prefill", marked(tmp_path / "both.json"))
    assert [step["phase"] for step in found["steps"]] == ["prefill", "decode"]
    told = next(check for check in found["health"] if check["check"] == "phases as named")
    assert told["status"] == "failed"
    assert "1 decode" in told["detail"]


def test_a_run_is_saved_and_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = marked(tmp_path / "job.json.gz")
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    shown = document(capsys, path, "--model", "llama-3-8b", "--out", "mine")
    (folder,) = Path("mine").iterdir()
    assert folder.name.endswith("-job")
    assert {file.name for file in folder.iterdir()} == {"run.json", "report.html"}
    assert run(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
    for form, said in (("text", "PREFILL BESIDE DECODE"), ("html", "<!doctype html>"), ("markdown", "| ")):
        assert run(["report", str(folder), "--as", form]) == 0
        assert said.lower() in capsys.readouterr().out.lower()
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before


def test_model_and_accelerator_come_from_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(marked(tmp_path / "a.json", gpu=""))
    flags = ("--model", "llama-3-8b", "--on", "h100-sxm", "--weights=fp8")
    stated = phasewise("trace", path, *flags, "--out", "first", "--json", cwd=tmp_path).document
    (folder,) = (tmp_path / "first").iterdir()
    again = document(capsys, path, "--run", folder)
    assert again["phases"] == stated["phases"]
    assert again["phases"]["decode"]["mbu"] > 0
    # The flag stands against the run: an H200 has 4.8 TB/s for an H100's 3.35.
    other = document(capsys, path, "--run", folder, "--on", "h200-sxm")
    assert other["phases"]["decode"]["mbu"] == pytest.approx(again["phases"]["decode"]["mbu"] * 3.35 / 4.8, rel=0.01)


def test_the_annotated_trace_is_read_as_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = marked(tmp_path / "a.json")
    found = document(capsys, path, "--annotate", "out.json.gz")
    again = document(capsys, "out.json.gz")
    for part in ("phases", "steps", "kernels_total", "gpu_sum_s", "span_s"):
        assert again[part] == found[part]
    assert "--force" in _refused_after(capsys, path, "--annotate", "out.json.gz")
    assert run(["trace", str(path), "--annotate", "out.json.gz", "--force", "--json"]) == 0


def _refused_after(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(["trace", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_a_users_rules_name_families_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.csv"
    rules.write_text("family,pattern,note\nmoe,gemvx,ours\n")
    found = document(capsys, marked(tmp_path / "a.json"), "--rules", rules)
    assert found["phases"]["decode"]["families"].keys() == {"moe"}


def test_mistakes_are_one_sentence_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = marked(tmp_path / "a.json")
    text = tmp_path / "notes.txt"
    text.write_text("nothing")
    assert "name a trace" in refused(capsys)
    assert "not both ways" in refused(capsys, path, "--prefill", path)
    assert "one file" in refused(capsys, path, path)
    assert "--force" in refused(capsys, path, "--force")
    assert "would overwrite the input" in refused(capsys, path, "--annotate", path, "--force")
    assert "notes.txt" in refused(capsys, text)
    assert "gone.json" in refused(capsys, "gone.json")
    assert "no model" in refused(capsys, path, "--model", "no-such-model")
    assert "not a known accelerator" in refused(capsys, path, "--on", "gpu-9000")
    assert "gone" in refused(capsys, path, "--run", "gone")
    assert "rules.csv" in refused(capsys, path, "--rules", "rules.csv")


def test_ctrl_c_while_reading_is_one_sentence_and_saves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phasewise.jobs.trace.read_all", interrupted)
    assert run(["trace", str(marked(tmp_path / "a.json"))]) == 130
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "phasewise: Interrupted: nothing was saved.\n")
    assert not Path("phasewise-runs").exists()


def test_hostile_names_reach_no_terminal_and_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b]0;owned\x07gemm<script>alert(1)</script>"
    path = write(
        tmp_path / "a.json", events(step(10 * MS, name, MS, 9), ((PREFILL + name, 7 * MS, 22 * MS),)), gpu=name
    )
    assert run(["trace", str(path), "--full"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\x07" not in text
    (folder,) = Path("phasewise-runs").iterdir()
    page = (folder / "report.html").read_text()
    assert "<script>alert" not in page


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated])
def test_an_interruption_says_what_is_saved_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stop: type[KeyboardInterrupt]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise stop

    path, code = marked(tmp_path / "a.json"), 143 if stop is Terminated else 130
    with monkeypatch.context() as patched:
        patched.setattr("phasewise.report.show.traced", stopped)
        assert run(["trace", str(path), "--annotate", "bands.json"]) == code
    out = capsys.readouterr()
    (folder,) = Path("phasewise-runs").iterdir()
    assert out.out == ""
    assert f"bands.json is written and the run is saved, and shown by: phasewise report {folder}" in out.err
    assert run(["report", str(folder)]) == 0
    capsys.readouterr()
    monkeypatch.setattr("phasewise.jobs.trace.save", stopped)
    assert run(["trace", str(path), "--annotate", "more.json", "--out", "none"]) == code
    assert capsys.readouterr().err == "phasewise: Interrupted: more.json is written; no run was saved.\n"
    assert Path("more.json").exists()
    assert not Path("none").exists()


def test_a_stated_accelerator_is_asked_for_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = marked(tmp_path / "a.json", gpu="")
    bare, stated = document(capsys, path), document(capsys, path, "--on", "h100-sxm")
    for found, status in ((bare, "failed"), (stated, "not_checked")):
        told = next(check for check in found["health"] if check["check"] == "accelerator's name")
        assert told["status"] == status
        assert ("--on" in told["detail"]) == (status == "failed")
    assert "--on" not in str(stated["notices"])
    assert "h100-sxm" in next(check["detail"] for check in stated["health"] if "name" in check["check"])


def test_a_stated_accelerator_that_the_files_contradict_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = marked(tmp_path / "a.json", gpu="AMD Instinct MI300X")

    def name_of(*arguments: str) -> dict[str, Any]:
        found = document(capsys, path, "--model", "llama-3-8b", *arguments)
        told: dict[str, Any] = next(check for check in found["health"] if check["check"] == "accelerator's name")
        return told

    assert name_of("--on", "h100-sxm")["status"] == "failed"
    assert "MI300X (mi300x)" in name_of("--on", "h100-sxm")["detail"]
    assert name_of("--on", "mi300x")["status"] == "passed"
    assert name_of()["status"] == "passed"
    assert name_of("--peak", "1PFLOP/s", "--bandwidth", "5TB/s")["status"] == "passed"
    # A name that the catalogue does not know contradicts nothing.
    other = marked(tmp_path / "b.json", gpu="Some Board")
    found = document(capsys, other, "--on", "h100-sxm")
    assert next(check for check in found["health"] if "name" in check["check"])["status"] == "passed"


def test_a_file_name_that_is_no_text_is_read_saved_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    try:
        path = marked(folder / os.fsdecode(b"rank\xff.json"))
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    for given in (path, folder):
        found = document(capsys, given)
        assert found["files"][0]["name"] == "rank\N{REPLACEMENT CHARACTER}.json"
        assert run(["report", str(max(Path("phasewise-runs").iterdir()))]) == 0
        capsys.readouterr()
