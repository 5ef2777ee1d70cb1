"""What a file looks like that is no trace, in one sentence with the way out."""

from __future__ import annotations

import re
from typing import NamedTuple

from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import registry

_SHOWN = 40


class _Look(NamedTuple):
    """A kind of file: what its first bytes match, or how its name ends; what it is, and the cure."""

    begins: bytes
    ends: tuple[str, ...]
    what: str
    cure: str


_NEVER = rb"(?!)"
_EXPORT = "export it as Chrome JSON (torch.profiler's export_chrome_trace, or `traceconv json` of Perfetto)"
_OTHERS = (
    _Look(rb'(?s)\s*\{\s*"schema":.{0,40}"envelope":', (), "a phasewise run", "show it with `phasewise report`"),
    _Look(
        rb"(?i)\"?(?:timestamp|arrived_at|time)\"?,[^\n]*(?:tokens|prompt)|\s*\{[^\n{]*\"(?:input_length|hash_ids)\"",
        (),
        "a request log",
        "read it with `phasewise logs`",
    ),
)
"""What other verbs read; JSON among it."""

_LOOKS = (
    _Look(rb"version https://git-lfs", (), "a Git LFS pointer, not the file itself", "run `git lfs pull`"),
    _Look(rb"(?:\.\./)*\.git/annex/|/annex/objects/", (), "a git-annex pointer", "run `git annex get`"),
    _Look(rb"(?is)\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html)", (), "an HTML page", "download the file itself"),
    _Look(rb"\s*<\?xml", (), "an XML file", "export it in one of those forms"),
    _Look(_NEVER, (".qdstrm",), "an unfinished Nsight Systems recording", "run `QdstrmImporter -i FILE` on it"),
    _Look(rb"\x80[\x02-\x05]", (), "a Python pickle, which is never opened because it runs code", _EXPORT),
    _Look(rb"\x0a(?=[\s\S]{0,64}[\x00-\x08])", (".pftrace", ".perfetto-trace"), "a Perfetto protobuf trace", _EXPORT),
    _Look(_NEVER, (".xplane.pb",), "an XLA profile", "read it with xprof"),
    _Look(rb"PAR1", (), "a Parquet file", "name the recording that it was made of"),
    _Look(rb"\x28\xb5\x2f\xfd", (), "packed with zstd", "unpack it with `zstd -d`"),
    _Look(rb"\xfd7zXZ", (), "packed with xz", "unpack it with `xz -d`"),
    _Look(rb"BZh[1-9]", (), "packed with bzip2", "unpack it with `bzip2 -d`"),
    _Look(rb"(?s).{257}ustar", (), "a tar archive", "unpack it"),
    _Look(rb"\x7fELF", (), "a program", "name what a profiler wrote"),
    _Look(rb"SQLite format 3\0", (), "an SQLite file without a table of a profiler", "name the profiler's own export"),
    _Look(rb"\xff\xfe|\xfe\xff", (), "text in UTF-16", "save it as UTF-8"),
    *_OTHERS,
    _Look(rb"\s*[\[{]", (), "JSON without trace events", "name what a profiler wrote"),
)
"""Asked in this order."""


def for_another_verb(opened: Opened) -> bool:
    """Whether the file is what another verb reads, though it may be JSON as a trace is."""
    return any(_is(look, opened) for look in _OTHERS)


def sentence(opened: Opened) -> str:
    """Why the file is refused: what it looks like, what is read, what to do."""
    what, cure = _look(opened)
    return f"{opened.name} is {what}, not a trace that is read ({registry.forms()}): {cure}."


def _look(opened: Opened) -> tuple[str, str]:
    if not opened.head:
        if opened.truncated:
            return f"without content ({opened.truncated})", "copy it again"
        return "empty", "record it again"
    for look in _LOOKS:
        if _is(look, opened):
            return look.what, look.cure
    start = opened.head[:_SHOWN]
    if b"\0" in opened.head or sum(byte < 9 for byte in start):
        return f"a binary file that begins with {start[:8].hex(' ')}", "name what a profiler wrote"
    return f"text that begins with {start.decode('utf-8', 'replace')!r}", "name what a profiler wrote"


def _is(look: _Look, opened: Opened) -> bool:
    head = opened.head.removeprefix(b"\xef\xbb\xbf")
    return opened.name.lower().endswith(look.ends) or re.match(look.begins, head) is not None
