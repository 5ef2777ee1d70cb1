"""docs/logs.md lists what the readers accept."""

from __future__ import annotations

import re
from pathlib import Path

from phasewise.observe.logs import plain
from phasewise.observe.logs.read import READERS

PAGE = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")


def test_every_column_name_is_listed_and_no_other() -> None:
    table = PAGE.split("| column | names |")[1].split("\n\n")[0]
    listed = {name.replace("_", "") for name in re.findall(r"`([a-z_]+)`", table)}
    assert listed == {*plain.PROMPT, *plain.ANSWER, *plain.SECONDS, *plain.MILLISECONDS}


def test_every_form_has_a_row() -> None:
    table = PAGE.split("| form | what it holds |")[1].split("\n\n")[0]
    assert len(table.strip().splitlines()) - 1 == len(READERS)
