"""The user's own models: found like the others, and a wrong row is refused with its file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phasewise.errors import InputError
from phasewise.model import catalogue, user
from phasewise.model.load import load

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "phasewise"
    folder.mkdir()
    return folder / "models.json"


def rows(**models: Any) -> str:
    return json.dumps({name.replace("_", "-"): row for name, row in models.items()}, indent=1)


def test_a_row_is_found_by_name_and_alias_and_counted(file: Path) -> None:
    file.write_text(rows(my_model={"source": "our run", "aliases": ["lab/My-Model"], "config": CONFIG}))
    model = load("LAB/my-model")
    assert model.name == "my-model"
    assert model.parameters == 1_235_814_400  # as llama-3.2-1b, whose shape it has
    assert f"{file} line 2: our run" in model.source
    row = catalogue.find("my-model")
    assert row is not None
    assert row.origin == f"{file} line 2"
    shipped = catalogue.find("llama-3-8b")
    assert shipped is not None
    assert shipped.origin == ""


def test_no_file_and_an_empty_object_add_nothing(file: Path) -> None:
    many = len(catalogue.rows())
    file.write_text("{ }\n")
    catalogue._with.cache_clear()
    assert len(catalogue.rows()) == many


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"config": CONFIG | {"hidden_size": "big"}}, "hidden_size"),
        ({"config": CONFIG | {"num_hidden_layers": 0}}, "num_hidden_layers"),
        ({"config": {"model_type": "llama"}}, "missing"),
        ({"config": {"model_type": "no-such-family"}}, "no-such-family"),
        ({"config": {}}, "model_type"),
        ({"source": "x"}, "config"),
        ({"config": CONFIG, "colour": "red"}, "colour"),
        ({"config": CONFIG, "aliases": ["llama-3-8b"]}, "'llama-3-8b' is the name of another model"),
        ({"config": CONFIG, "aliases": ["META-LLAMA/Meta-Llama-3-8B"]}, "is the name of another model"),
        ({"config": CONFIG, "aliases": ["first"]}, "'first' is the name of another model"),
        ({"config": CONFIG, "aliases": ["a\x1b[31mb"]}, "is no name"),
        ({"config": CONFIG, "aliases": [""]}, "is no name"),
        ([1, 2], "no model"),
        (None, "no model"),
    ],
)
def test_a_wrong_row_is_refused_with_file_and_line(file: Path, row: object, told: str) -> None:
    first = json.dumps({"config": CONFIG})
    file.write_text(f'{{\n "first": {first},\n\n "second": {json.dumps(row)}\n}}\n')
    with pytest.raises(InputError) as caught:
        load("llama-3-8b")
    text = str(caught.value)
    assert text.startswith(f"{file} line 4")
    assert told in text
    assert text.isprintable()


@pytest.mark.parametrize("name", ["llama-3-8b", "Meta-Llama/meta-llama-3-8b", "", "a b", "x" * 101])
def test_a_name_that_is_taken_or_none_is_refused(file: Path, name: str) -> None:
    file.write_text(json.dumps({name: {"config": CONFIG}}))
    with pytest.raises(InputError, match=r"models\.json line 1"):
        catalogue.rows()


def test_a_name_given_twice_is_refused(file: Path) -> None:
    row = json.dumps({"config": CONFIG})
    file.write_text(f'{{"a": {row},\n"a": {row}}}')
    with pytest.raises(InputError, match="line 2: 'a' is the name of another model"):
        catalogue.rows()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("[]", 1),
        ("{", 1),
        ('{\n"a" 1}', 2),
        ('{"a": {}', 1),
        ('{\n\n"a": }', 3),
        ('{"a": {},}', 1),
        ('{"a": {}} x', 1),
        ("{} []", 1),
        ("{a: 1}", 1),
        ('{"a": {}\n"b": {}}', 2),
    ],
)
def test_what_is_no_json_object_names_its_line(file: Path, text: str, line: int) -> None:
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        list(user.entries(file))
    assert f"{file} line {line} is not JSON" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe{", b'{"a": ' + b"[" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"])
def test_hostile_bytes_are_one_sentence(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"models\.json"):
        catalogue.rows()


def test_what_the_json_module_takes_is_taken_whole(file: Path) -> None:
    file.write_text(rows(a={"config": CONFIG}, b={"config": CONFIG, "source": "}{,:"}, c={"config": CONFIG}))
    added = [row for row in catalogue.rows() if row.origin]
    assert [row.name for row in added] == ["a", "b", "c"]
    lines = file.read_text().splitlines()
    for row in added:
        number = int(row.origin.rpartition(" ")[2])
        assert lines[number - 1].strip().startswith(f'"{row.name}"')
