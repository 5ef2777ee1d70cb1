"""`phasewise predict --grid`, --csv and --chart, and what scaling adds to a prediction."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cli_run import one_sentence, phasewise

from phasewise.cli.grid import axes
from phasewise.errors import UsageError
from phasewise.jobs.subject import Subject

REFERENCE = ("predict", "llama-3-8b", "--on", "h100-sxm")
LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
GRID = ("predict", "llama-3-8b", "--on", "h100-sxm,t4", "--grid", "lengths=300,2000,batches=1..64,weights=bf16,int4")


def test_a_prediction_says_what_fits_and_where_decode_turns_compute_bound(tmp_path: Path) -> None:
    text = " ".join(phasewise(*REFERENCE, cwd=tmp_path).out.split())
    assert "200 requests of 2,300 tokens fit in 90% of 85.5 GB" in text
    assert "16.06 GB of weights + 60.3 GB of KV" in text
    assert "At 2,000 tokens of context decode never turns compute-bound" in text
    assert "2,000 4.56 ms ×30.7 never 230" in text
    found = phasewise(*REFERENCE, "--prompt", "100", "--json", cwd=tmp_path).document
    assert found["decode_turns_compute_bound_at"] == 396
    assert found["fits"]["largest_batch"] == int(found["fits"]["kv_bytes"] / found["fits"]["kv_bytes_per_request"])
    assert found["fits"]["weights_bytes"] == 16_060_522_496
    assert found["provenance"]["fits.usable_share"]["provenance"] == "assumed"
    assert found["contexts"][0]["throughput_gain"] == pytest.approx(60.67, abs=0.01)
    blind = phasewise(
        "predict", "llama-3-8b", "--peak", "1PFLOP/s", "--bandwidth", "3TB/s", "--json", cwd=tmp_path
    ).document
    assert blind["fits"] is None
    assert "memory is not known" in blind["reasons"]["fits"]


def test_the_grid_as_tables(tmp_path: Path) -> None:
    done = phasewise(*GRID, cwd=tmp_path)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "56 predicted points (4 combinations × 2 lengths × 7 batches)" in done.out
    text = " ".join(done.out.split())
    assert "H100-SXM, BF16 WEIGHTS, BF16 KV: DECODE STEP" in text
    assert "2,000 4.56 ms 4.64 ms 4.79 ms 5.11 ms 5.73 ms 6.98 ms 9.49 ms" in text
    # 16 GB of weights do not fit on a T4.
    assert "!" in text[text.index("T4, BF16 WEIGHTS") : text.index("H100-SXM, INT4 WEIGHTS")]


def test_several_accelerators_alone_are_compared(tmp_path: Path) -> None:
    found = " ".join(phasewise("predict", "llama-3-8b", "--on", "h100-sxm,a100-sxm-80gb", cwd=tmp_path).out.split())
    assert "h100-sxm bf16 29.6 ms* 4.56 ms 219 230" in found
    assert "a100-sxm-80gb bf16 93.4 ms* 7.49 ms" in found


def test_the_grid_as_csv_on_stdout_and_in_a_file(tmp_path: Path) -> None:
    out = phasewise(*GRID, "--csv", "-", cwd=tmp_path).out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 56
    point = next(row for row in rows if (row["length"], row["batch"], row["weights"]) == ("2000", "64", "bf16"))
    assert point["accelerator"] == "h100-sxm"
    assert float(point["decode_s"]) == pytest.approx(9.49e-3, rel=1e-3)
    assert float(point["throughput_gain"]) == pytest.approx(30.75, abs=0.01)
    assert (point["prefill_bound"], point["decode_bound"], point["fits"], point["basis"]) == (
        "compute",
        "memory",
        "true",
        "datasheet",
    )
    assert "Written: out.csv" in phasewise(*GRID, "--csv", "out.csv", cwd=tmp_path).out
    assert (tmp_path / "out.csv").read_text() == out


def test_what_is_not_known_is_an_empty_cell_and_a_null(tmp_path: Path) -> None:
    command = ("predict", "llama-3-8b", "--on", "h100-sxm,jetson-agx-thor")
    rows = list(csv.DictReader(io.StringIO(phasewise(*command, "--csv", "-", cwd=tmp_path).out)))
    assert (rows[1]["decode_s"], rows[1]["decode_bound"], rows[1]["dtype"]) == ("", "", "")
    found = phasewise(*command, "--json", cwd=tmp_path).document
    assert found["points"]["decode_s"][1] is None
    assert "no known rate" in found["reasons"]["combinations.1"]
    assert found["provenance"]["points.decode_s"] == {
        "unit": "s",
        "provenance": "predicted",
        "source": "floor of a decode step of batch requests at length tokens of context",
    }


def test_json_columns_are_of_one_length(tmp_path: Path) -> None:
    found = phasewise(*GRID, "--json", cwd=tmp_path).document
    assert {len(values) for values in found["points"].values()} == {56}
    assert found["points"]["length"][0] == 300
    assert [model["weights_format"] for model in found["models"]] == ["bf16", "int4"]


@pytest.mark.parametrize("name", ["out.svg", "out.html"])
def test_a_chart_is_one_file_that_needs_nothing_else(tmp_path: Path, name: str) -> None:
    assert f"Written: {name}" in phasewise(*GRID, "--chart", name, cwd=tmp_path).out
    text = (tmp_path / name).read_text()
    drawing = text[text.index("<svg") : text.rindex("</svg>") + 6]
    root = ET.fromstring(drawing)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) >= 4 + 4 * 2
    assert "h100-sxm, bf16 weights" in text
    assert "Dashed: more requests than fit in memory." in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_a_chart_of_one_length_compares_the_combinations_in_one_panel(tmp_path: Path) -> None:
    command = (*REFERENCE[:2], "--on", "h100-sxm,t4", "--grid", "batches=1..8", "--chart", "out.svg")
    assert phasewise(*command, cwd=tmp_path).code == 0
    text = (tmp_path / "out.svg").read_text()
    assert "Decode step at 2,000 tokens of context" in text
    assert text.count('class="axis"') == len(("across",)) + len((1, 2, 5))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--grid", "lengths=0..4"), "lengths="),
        (("--grid", "lengths=4..1"), "lengths="),
        (("--grid", "lengths=1..9+0"), "lengths="),
        (("--grid", "batches=x"), "batches="),
        (("--grid", "lengths=99999999999999999999"), "lengths="),
        (("--grid", "lengths=1..100000000+1"), "over 1,000,000 values"),
        (("--grid", "lengths=1..2000+1,batches=1..2000+1"), "4,000,000 points"),
        (("--grid", "colour=red"), "colour=red"),
        (("--grid", "128..256"), "lengths="),
        (("--grid", "lengths=1,lengths=2"), "given once"),
        (("--grid", "weights=int3"), "int4"),
        (("--grid", ""), "--grid"),
        (("--grid", "lengths=1..4", "--explain"), "--explain"),
        (("--grid", "lengths=1..4", "--csv", "-", "--json"), "--csv"),
        (("--grid", "lengths=1..4", "--csv", "no/such/folder.csv"), "no/such/folder.csv"),
        (("--grid", "lengths=1..4", "--chart", "x.png"), ".svg"),
        (("--chart", "x.svg"), "more than one"),
        (("--on", "h100-sxm,h100"), "h100-pcie"),
        (("--on", "jetson-agx-thor,jetson-agx-thor"), "no known rate"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_sentence(phasewise(*REFERENCE, *arguments, cwd=tmp_path), 2)
    assert not [file for file in tmp_path.iterdir() if file.suffix in (".png", ".svg", ".csv")]


@pytest.mark.parametrize(
    ("text", "lengths", "batches"),
    [
        (None, (2000,), (1,)),
        ("lengths=128..1000", (128, 256, 512, 1000), (1,)),
        ("lengths=128..1024", (128, 256, 512, 1024), (1,)),
        ("batches=1..10+3", (2000,), (1, 4, 7, 10)),
        ("lengths=5,1..4,batches=7", (1, 2, 4, 5), (7,)),
        ("batches=3,3 lengths=7", (7,), (3,)),
        ("lengths=9..9", (9,), (1,)),
    ],
)
def test_how_axes_are_written(text: str | None, lengths: tuple[int, ...], batches: tuple[int, ...]) -> None:
    found = axes(Subject(model="m", on="a, b,a"), text, prompt=2000, batch=1)
    assert (found.lengths, found.batches) == (lengths, batches)
    assert found.accelerators == ("a", "b")
    assert found.weights == (None,)


def test_formats_multiply() -> None:
    found = axes(Subject(model="m", on="a"), "weights=bf16,int4,kv=bf16,fp8,batches=1..4", prompt=1, batch=1)
    assert found.points == 2 * 2 * 3
    with pytest.raises(UsageError):
        axes(Subject(model="m", on="a"), "weights", prompt=1, batch=1)


def test_a_table_never_replaces_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    model, content = tmp_path / "config.json", json.dumps(LLAMA)
    model.write_text(content)
    (tmp_path / "grid.csv").symlink_to(model)
    for out in ("config.json", "grid.csv"):
        done = phasewise("predict", "config.json", "--on", "h100-sxm", "--csv", out, cwd=tmp_path)
        assert "is no .csv file" in one_sentence(done, 2)
        assert model.read_text() == content
    (tmp_path / "old.csv").write_text("old")
    assert phasewise("predict", "config.json", "--on", "h100-sxm", "--csv", "old.csv", cwd=tmp_path).code == 0
    assert (tmp_path / "old.csv").read_text() != "old"
