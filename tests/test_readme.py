"""README.md and docs/ name every verb, flag, page and folder, and none that is not there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from phasewise.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
SHOWN_APART = {"power show": "power", "power restore": "power sweep"}
"""Verbs without a row of their own, and the row that they stand in."""


def verbs(group: object, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every verb in the order of --help, and its flags."""
    for name in group.list_commands(None):  # type: ignore[attr-defined]
        verb = group.commands[name]  # type: ignore[attr-defined]
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{name} ")
        else:
            taken = {flag for one in verb.params for flag in (*one.opts, *one.secondary_opts)}
            yield f"{path}{name}", {flag for flag in taken if flag.startswith("--")} | {"--help"}


VERBS = dict(verbs(typer.main.get_command(app)))


def test_the_table_has_every_verb_in_the_order_of_help_and_each_has_its_page() -> None:
    rows = re.findall(r"^\| (`phasewise .+?) \|.*\| (.+?) \|$", README, re.MULTILINE)
    named = [found for row, _ in rows for found in re.findall(r"`phasewise ([a-z]+(?: sweep)?)", row)]
    assert named == list(dict.fromkeys(SHOWN_APART.get(verb, verb) for verb in VERBS))
    for _, pages in rows:
        for page in re.findall(r"\((docs/[^)]+)\)", pages):
            assert (ROOT / page).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_follows_phasewise_on_a_page_is_a_verb_with_those_flags(page: Path) -> None:
    for line in page.read_text().splitlines():
        for words in re.findall(r"(?:^|`|\$ |sudo )\s*phasewise ([a-z]+[^`|#]*)", line):
            verb, *rest = words.split()
            if (where := f"{verb} {rest[0]}" if rest else verb) not in VERBS:
                where = "power show" if verb == "power" else verb
            if where not in VERBS and (line.startswith("phasewise ") or verb == "phases"):
                continue  # a sentence; the process that --annotate adds
            assert where in VERBS, line
            own = words.split(" -- ")[0]
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", own)) <= VERBS[where], line


def test_every_flag_stands_on_a_page() -> None:
    said = "".join(page.read_text() for page in PAGES)
    flags = {flag for verb, taken in VERBS.items() if verb != "simulate" for flag in taken} - {"--power"}
    assert not sorted(flag for flag in flags if not re.search(rf"{flag}\b", said))
    plan = (ROOT / "docs" / "simulate.md").read_text()
    assert not sorted(flag for flag in VERBS["simulate"] if flag != "--help" and flag.removeprefix("--") not in plan)


def test_the_map_names_every_folder_and_none_that_is_not_there() -> None:
    plan = README.split("## The map")[1].split("```")[1]
    package = ROOT / "src" / "phasewise"
    tracked = subprocess.run(
        ["git", "ls-files", "src/phasewise"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not tracked:
        pytest.skip("no git checkout")
    folders = {Path(file).parent.relative_to("src/phasewise") for file in tracked if file.endswith(".py")}
    described = dict(re.findall(r"^  ([a-z]+)/ ((?:.*\n)(?:^ {14}.*\n)*)", plan, re.MULTILINE))
    assert set(described) == {folder.parts[0] for folder in folders if folder.parts}
    for top, words in described.items():
        below = {folder.parts[1] for folder in folders if folder.parts[:1] == (top,) and len(folder.parts) > 1}
        named = set(re.findall(r"\b([a-z]+)/", words)) - (set(described) - below)
        assert named <= {path.name for path in package.joinpath(top).rglob("*") if path.is_dir()}, top
        assert below - {"markdown"} <= named, top
