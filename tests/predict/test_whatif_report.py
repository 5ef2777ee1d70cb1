"""What is printed of parallelism and what-ifs: the words and figures, 80 columns, and the JSON document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phasewise import cli

BASE = ("predict", "llama-3-8b", "--on", "h100-sxm")
CHANGES = "weights=int4,kv=fp8,tp=2,batch=32,prefix-hit=0.8,draft=4:0.7,graphs=on,chunk=512,accelerator=h200-sxm"


def text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run([*BASE, *arguments]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert max(map(len, shown.out.splitlines())) <= 80
    return shown.out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.run([*BASE, *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_if_stands_between_the_prediction_and_the_recap(capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys, "--what-if", CHANGES)
    assert shown.index("WHERE THE TIME GOES") < shown.index("WHAT IF") < shown.index("RECAP")
    for change in CHANGES.split(","):
        assert f"\n  {change} " in shown
    flat = " ".join(shown.split())
    assert (
        "weights=int4: prefill stays as it is; decode 4.56 ms → 1.60 ms (×2.8, most of it MLP (memory)"
        in flat.replace("->", "→")
    )
    assert "chunk=512: refused: at batch 1 no other request decodes" in flat
    assert "all together" in shown


def test_nothing_is_shown_that_was_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys)
    assert "WHAT IF" not in shown
    assert "DEVICES PAY" not in shown
    assert not {"what_if", "parallel"} & set(document(capsys))


def test_devices_are_shown_with_messages_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys, "--devices", "4", "--explain")
    flat = " ".join(shown.split())
    assert "4 devices share the model: TP=4 (what --devices means without --tp)." in flat
    assert "4 devices as TP=4, joined by NVLink4, 450 GB/s each way; lm_head and embedding sharded." in flat
    assert "HOW MANY DEVICES PAY" in shown
    assert "32 all-reduce × (4.56 µs + 12.3 kB / 450 GB/s)" in flat
    assert shown.index("ON EACH DEVICE") < shown.index("RECAP")


def test_the_document_of_several_devices(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--tp", "2", "--pp", "2", "--batch", "8")
    parallel = found["parallel"]
    assert {key: parallel[key] for key in ("layout", "devices", "tp", "pp", "ep", "dp_attention", "lm_head")} == {
        "layout": "TP=2, PP=2", "devices": 4, "tp": 2, "pp": 2, "ep": 1, "dp_attention": 1, "lm_head": "sharded",
    }  # fmt: skip
    assert parallel["link"] == {"name": "NVLink4", "bandwidth": 450e9}
    decode = parallel["per_device"]["decode"]
    assert decode["time_s"] == pytest.approx(found["decode"]["time_s"])
    assert decode["floor_s"] + decode["communication_s"] + decode["waiting_s"] == pytest.approx(decode["time_s"])
    assert sum(message["seconds"] for message in decode["messages"]) == pytest.approx(decode["communication_s"])
    assert decode["weight_bytes"] == pytest.approx(found["decode"]["weight_bytes"] / 4)
    assert found["provenance"]["parallel.link.bandwidth"]["provenance"] == "datasheet"
    assert found["provenance"]["parallel.per_device.decode.messages.0.latency"]["provenance"] == "assumed"
    assert [row["devices"] for row in parallel["advice"]["rows"]] == [1, 2, 4, 8]
    assert list(found)[-3:] == ["provenance", "reasons", "recap"]


def test_the_document_of_what_ifs(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--what-if", "weights=int4,draft=4:0.7", "--what-if", "chunk=512")
    what_if = found["what_if"]
    assert what_if["before"]["ttft_s"] == found["prefill"]["time_s"]
    assert what_if["before"]["longest_gap_s"] is None
    weights, draft, chunk = what_if["changes"]
    assert weights["decode"]["speedup"] == pytest.approx(weights["decode"]["before_s"] / weights["decode"]["after_s"])
    assert weights["decode"]["owner"] == "MLP (memory)"
    assert weights["prefill"]["owner"] is None
    assert found["reasons"]["what_if.changes.0.prefill.owner"] == "nothing changes"
    assert draft["figures"]["tokens_per_step"] == pytest.approx(2.7731)
    assert chunk["after"] is None
    assert "batch" in chunk["refused"]
    assert what_if["together"]["after"]["tpot_s"] < min(weights["after"]["tpot_s"], draft["after"]["tpot_s"])


def test_a_model_too_large_for_one_device_is_told_how_many_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["predict", "llama-3-70b", "--on", "h100-sxm"]) == 0
    flat = " ".join(capsys.readouterr().out.split())
    assert "they do not fit" in flat
    assert "2 is the fewest that it fits on" in flat


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tp", "3"),
        ("--tp", "0"),
        ("--devices", "4", "--tp", "2"),
        ("--ep", "8"),
        ("--pp", "99"),
        ("--dp-attention", "x"),
        ("--link", "carrier-pigeon"),
        ("--lm-head", "both"),
        ("--what-if", "weights"),
        ("--what-if", "weights=int5"),
        ("--what-if", "\x1b[2Jx=1"),
        ("--what-if", ""),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*BASE, *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("phasewise: ")
    assert shown.err.count("\n") == 1
    assert "\x1b" not in shown.err
    assert "Traceback" not in shown.err
