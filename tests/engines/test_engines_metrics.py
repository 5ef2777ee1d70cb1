from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.engines.base import Activity
from phasewise.engines.metrics import FAMILIES, activity

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "servers"


@pytest.mark.parametrize("engine", range(4))
def test_each_engine_has_its_four_families(engine: int) -> None:
    names = [names[engine] for names in FAMILIES.values()]
    page = "".join(f"# TYPE {name} gauge\n{name} {value}\n" for value, name in enumerate(names, 1))
    assert activity(page) == Activity(running=1, waiting=2, prompt_tokens=3, output_tokens=4)


def test_ranks_and_models_are_added_up() -> None:
    page = (
        'sglang:num_running_reqs{model_name="a b{c} \\" d",tp_rank="0"} 1.0 1700000000\n'
        'sglang:num_running_reqs{tp_rank="1"} 2\n'
        "sglang:num_running_reqs_total 50\n"
        'sglang:num_queue_reqs{x="}"} +Inf\n'
        "sglang:prompt_tokens_total NaN\n"
    )
    assert activity(page) == Activity(running=3)


@pytest.mark.parametrize(
    "page", ["", "<html></html>", "up 1\n", "vllm:num_requests_running\n", "vllm:num_requests_running x\n"]
)
def test_a_page_of_something_else(page: str) -> None:
    assert activity(page) is None


@given(st.text() | st.lists(st.sampled_from([*FAMILIES["running"], "{", "}", '"', " ", "\n", "1", "#"])).map("".join))
def test_no_page_breaks_it(page: str) -> None:
    found = activity(page)
    assert found is None or isinstance(found, Activity)


def test_recorded_pages() -> None:
    if not RECORDED.is_dir():
        pytest.skip("skipped: no shared data")
    read = {
        name: activity((RECORDED / f"{name}.metrics.http").read_text()) for name in ("llamacpp", "vllm", "transformers")
    }
    assert read["llamacpp"] == Activity(running=0, waiting=0, prompt_tokens=88, output_tokens=48)
    assert read["vllm"] == Activity(running=0, waiting=0, prompt_tokens=124, output_tokens=40)
    assert read["transformers"] is None
