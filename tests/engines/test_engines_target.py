"""TARGET of a command: what it is taken for, before anything is started."""

from __future__ import annotations

import pytest
from engines_fake import Fake
from engines_loopback import Loopback

from phasewise.errors import UsageError
from phasewise.jobs.target import Connection, is_ours, model_file, open_engine

pytestmark = pytest.mark.alone


def test_a_scheme_in_capitals_is_a_url() -> None:
    with Loopback(Fake()) as server:
        url = server.url.replace("http", "HTTP")
        assert not is_ours(url)
        assert model_file(url) is None
        engine = open_engine(url, Connection())
        assert engine.target.name == server.url
        engine.close()


@pytest.mark.parametrize("target", ["gguf:", "hf:"])
def test_a_prefix_alone_names_nothing(target: str) -> None:
    with pytest.raises(UsageError, match=f"'{target}' names no file"):
        open_engine(target, Connection())


@pytest.mark.parametrize("target", ["", "-", "ftp://host", "model.gguf", "localhost:8000", "hf:somewhere", "\udcff"])
def test_what_is_no_target(target: str) -> None:
    with pytest.raises(UsageError):
        open_engine(target, Connection())


@pytest.mark.parametrize("stall_s", [float("inf"), 1e300])
def test_a_time_limit_without_end(stall_s: float) -> None:
    with pytest.raises(UsageError, match="up to a day"):
        open_engine("http://127.0.0.1:1", Connection(stall_s=stall_s))
