from __future__ import annotations

import csv
import time
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces_families_names import NAMES

from phasewise.errors import InputError
from phasewise.observe.traces.families import FAMILIES, family_of, rules


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in NAMES.items() for name in names])
def test_real_names_fall_into_their_family(family: str, name: str) -> None:
    assert family_of([name], rules()) == (family,)


def test_every_family_has_rules_and_names_but_other() -> None:
    assert {rule.family for rule in rules()} == set(FAMILIES) - {"other"}
    assert set(NAMES) == set(FAMILIES)


def test_our_patterns_are_good_for_a_users_file_too(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes(resources.files("phasewise.observe.traces").joinpath("families.csv").read_bytes())
    own = rules(path)
    assert own == rules() * 2


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("family,pattern,note", *lines)), "utf-8")
    return path


def test_a_users_rules_come_first(tmp_path: Path) -> None:
    own = rules(written(tmp_path / "f.csv", "", 'attention,"add_(one|two)",mine', "rope,fused_moe_kernel"))
    assert family_of(["add_one(int)", "FUSED_MOE_KERNEL", "rms_norm"], own) == ("attention", "rope", "norm")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gem,abc,", "line 2: 'gem' is no family"),
        ("gemm,(abc,", "line 2: '(abc' is no pattern"),
        ("gemm,(?<=a)b,", "line 2"),
        ("gemm,(a)\\1,", "line 2"),
        ("gemm,,", "line 2: a pattern has 1 to 500 characters"),
        (f"gemm,{'a' * 501},", "line 2: a pattern has 1 to 500 characters, this one 501"),
        ("gemm", "line 2 has 1 cells"),
        ("gemm,a,b,c", "line 2 has 4 cells"),
        ('gemm,"a', "no CSV"),
        ("gemm,((a{999}){999}){999},", "line 2"),
    ],
)
def test_a_bad_line_is_one_sentence_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        rules(written(tmp_path / "own.csv", line))
    text = str(caught.value)
    assert said in text
    assert "own.csv" in text
    assert "\n" not in text


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, data in {"a": b"pattern,family\n", "b": b"\xff\xfe\x00", "c": b"x" * ((1 << 20) + 1), "d": b""}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError):
            rules(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        rules(tmp_path / "absent")
    with pytest.raises(InputError, match="1001 rules"):
        rules(written(tmp_path / "many.csv", *["gemm,a,"] * 1001))


def test_a_catastrophic_pattern_of_a_user_takes_linear_time(tmp_path: Path) -> None:
    own = rules(written(tmp_path / "own.csv", "gemm,(a|a)*$b|(a+)+$c|(.*)*x$y,"))
    began = time.process_time()
    assert family_of(["a" * 4000] * 20, own) == ("other",) * 20
    assert time.process_time() - began < 5  # backtracking would take longer than the universe is old


@pytest.mark.parametrize("part", ["a", "_", "norm", "::", "chunk_", "mla", "triton_", "w4a1", "conv", "topk"])
def test_our_patterns_are_quick_on_hostile_names(part: str) -> None:
    began = time.process_time()
    family_of([part * (400_000 // len(part))] * 20, rules())
    assert time.process_time() - began < 5


@given(st.lists(st.text(max_size=40), max_size=8))
def test_any_text_has_a_family(names: list[str]) -> None:
    found = family_of(names, rules())
    assert len(found) == len(names)
    assert set(found) <= set(FAMILIES)


def test_names_of_no_encoding_have_a_family() -> None:
    assert family_of(["\ud800gemm", "a\0gemm", "norm_kernel\n", "\udfff"], rules()) == ("gemm", "gemm", "norm", "other")


def test_the_table_reads_as_a_table() -> None:
    text = resources.files("phasewise.observe.traces").joinpath("families.csv").read_text("utf-8")
    rows = list(csv.reader(text.splitlines()))
    assert rows[0] == ["family", "pattern", "note"]
    assert all(len(row) == 3 and row[2] for row in rows)
