"""Azure's public traces: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

https://github.com/Azure/AzurePublicDataset, 2023 and 2024: one row per request, dates with seven or six digits of
fraction, the later ones with a zone.
"""

from __future__ import annotations

from phasewise.observe.logs.rows import Head, Log
from phasewise.observe.logs.table import Columns, header, table


def azure(head: Head) -> Log | None:
    """The log, if its header is Azure's."""
    found = header(head)
    time, prompt, answer = (found.find(name) for name in ("timestamp", "contexttokens", "generatedtokens"))
    if not len(time) == len(prompt) == len(answer) == 1:
        return None
    return table("Azure CSV", head, found, Columns(prompt=prompt[0], answer=answer[0], time=time[0]))
