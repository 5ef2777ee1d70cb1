"""The band of one step of an engine, and its name. Whatever fails here, the engine goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from phasewise.mark.band import listened, opened
from phasewise.mark.label import summed
from phasewise.record.marks import step_name


class Steps:
    """The steps of one worker: at most one band is open at a time. Nothing that it does raises.

    The first failure is one warning, and the end of its marks: an engine of another version may lack what is read here.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._close: Callable[[], None] | None = None
        self._broken = False

    def open(self, name: Callable[[], str | None]) -> None:
        """End the band that is still open, and open one with the name that ``name`` gives, when somebody listens."""
        self.close()
        self.attempt(self._open, name)

    def close(self) -> None:
        """End the band, when one is open."""
        if self._close is not None:
            close, self._close = self._close, None
            self._do(close)

    def attempt(self, action: Callable[..., Any], *args: Any) -> None:
        """Do ``action``, unless something has failed before."""
        if not self._broken:
            self._do(action, *args)

    def _do(self, action: Callable[..., Any], *args: Any) -> None:
        try:
            action(*args)
        except Exception as error:
            if not self._broken:
                self._logger.warning("phasewise: steps are no longer marked here: %s: %s", type(error).__name__, error)
            self._broken = True

    def _open(self, name: Callable[[], str | None]) -> None:
        if listened() and (named := name()) is not None:
            self._close = opened(named)


def named(
    prefill: Sequence[tuple[int, int]], decode: Sequence[tuple[int, int]], *, speculative: bool = False
) -> str | None:
    """The name of a step from its prompts and generations, each as (q new tokens, k tokens of context with them).

    None for a step without requests.
    """
    if not prefill and not decode:
        return None
    return step_name("unknown", summed(prefill), summed(decode), speculative=speculative)
