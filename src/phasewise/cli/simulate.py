"""`phasewise simulate`; its planted flags are made from the fields of Plan."""

from __future__ import annotations

import inspect
import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import typer

from phasewise.cli import flags
from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.engines.simulated.presets import PRESETS
from phasewise.errors import UsageError
from phasewise.units import parse, show


def simulate(
    like: Annotated[
        str | None, typer.Option("--like", metavar="NAME", help=f"Start from a preset: {', '.join(PRESETS)}.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free one.")] = 0,
    api_key: Annotated[
        str | None, typer.Option("--api-key", metavar="KEY", help="Ask for this key under /v1; others get a 401.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Append the true times of each request, one JSON line.")
    ] = None,
    seconds: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Stop after this long, e.g. 60s; otherwise by Ctrl-C.")
    ] = None,
    as_json: flags.Json = False,
    **planted: Any,
) -> int:
    """An OpenAI-compatible server with planted, known timings, to learn phasewise without a GPU.

    Example: phasewise simulate --like h100-llama-3-8b
    """
    from phasewise.jobs.simulate import make_plan
    from phasewise.jobs.simulate import simulate as job
    from phasewise.report.stdout import write

    plan = make_plan(like, {name: _value(name, given) for name, given in planted.items() if given not in (None, False)})

    def announce(url: str) -> None:
        write(f"{_as_json(plan, url) if as_json else _as_text(plan, like, url)}\n")

    job(
        plan,
        host=host,
        port=port,
        api_key=api_key,
        log=log,
        seconds=parse(seconds, "s") if seconds else None,
        announce=announce,
    )
    return 0


_FIELDS = {field.name: field.default for field in msgspec.structs.fields(Plan)}
_HINTS = get_type_hints(Plan, include_extras=True)
_SHOWN = {"model", *(name for name in _FIELDS if name.startswith(("prefill_", "decode_")))}
_METAVARS = {int: "N", float: "FRACTION", str: "TEXT"}


def _flag(name: str) -> str:
    """``--prefill-overhead`` for ``prefill_overhead_s``; ``--no-usage`` for ``usage``, which is True by default."""
    word = name.removesuffix("_s").replace("_", "-")
    return f"--no-{word}" if _FIELDS[name] is True else f"--{word}"


def _metavar(name: str) -> str:
    if name.endswith("_s"):
        return "TIME"
    if name == "other_load":
        return "RATE,PROMPT,ANSWER"
    kind = get_args(_HINTS[name])[0]
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return _METAVARS.get(kind, "N")


def _parameter(name: str) -> inspect.Parameter:
    """The typer option of a Plan field: a switch, or text that ``_value`` reads."""
    default, help_text = _FIELDS[name], get_args(_HINTS[name])[-1].description
    kind: Any = bool if isinstance(default, bool) else str | None
    if not isinstance(default, bool) and default:
        help_text += f" [default: {show(default, 's') if name.endswith('_s') else default}]"
    option = typer.Option(_flag(name), metavar=None if kind is bool else _metavar(name), help=help_text)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind, option],
    )


def _value(name: str, given: str | bool) -> Any:
    """What the user gave for a Plan field, as its type.

    Raises:
        UsageError: not a value of that field.
    """
    if isinstance(given, bool):
        return not _FIELDS[name]
    if name.endswith("_s"):
        return 0.0 if given.strip() == "0" else parse(given, "s")
    value: Any = given
    if name == "other_load":
        parts, names = given.split(","), OtherLoad.__struct_fields__
        value = dict(zip(names, parts, strict=True)) if len(parts) == len(names) else {}
    try:
        value = msgspec.convert(value, _HINTS[name], strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{_flag(name)} {given}: {error}; it takes {_metavar(name)}.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{_flag(name)} {given}: give a finite number.")
    return value


def _as_json(plan: Plan, url: str) -> str:
    return msgspec.json.encode({"url": url, "pid": os.getpid(), "plan": plan}).decode()


def _as_text(plan: Plan, like: str | None, url: str) -> str:
    pieces = {name: show(getattr(plan, name), "s") for name in _FIELDS if name.endswith("_s")}
    text = (
        f"Simulating {plan.model} at {url} (Ctrl-C stops it)\n"
        f"  prefill      {pieces['prefill_overhead_s']} + {pieces['prefill_per_token_s']} per token"
        f" + {pieces['prefill_per_token2_s']} per token squared\n"
        f"  decode step  {pieces['decode_overhead_s']} + {pieces['decode_per_request_s']} per request"
        f" + {pieces['decode_per_context_token_s']} per token of context\n"
    )
    if like:
        text += f"  stands for   {PRESETS[like].source}\n"
    if changed := [name for name in _FIELDS if getattr(plan, name) != _FIELDS[name] and name not in _SHOWN]:
        text += f"  also         {', '.join(_flag(name) + _setting(plan, name) for name in changed)}\n"
    return f"{text}Profile it:    phasewise profile {url} {PRESETS[like].flags if like else ''}".rstrip()


def _setting(plan: Plan, name: str) -> str:
    value = getattr(plan, name)
    if isinstance(value, bool):
        return ""
    if isinstance(value, OtherLoad):
        return f" {value.rate:g},{value.prompt},{value.answer}"
    return " " + (show(value, "s") if name.endswith("_s") else str(value))


_own = [
    parameter
    for parameter in inspect.signature(simulate, eval_str=True).parameters.values()
    if parameter.kind != parameter.VAR_KEYWORD
]
simulate.__signature__ = inspect.Signature([*_own, *map(_parameter, _FIELDS)], return_annotation=int)  # type: ignore[attr-defined]
