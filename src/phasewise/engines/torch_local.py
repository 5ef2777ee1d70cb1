"""A transformers model in a process of ours: no server, no HTTP; one prefill forward, then greedy steps.

The process is a child (``mark/local_child.py``), so that this one stays free of torch, and Ctrl-C ends the run and not
a kernel. Nothing of the model's directory is executed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from phasewise.engines.base import Activity, Answer, Chunk, Prompt
from phasewise.engines.prompts import TokenIds, check
from phasewise.engines.text import clean
from phasewise.errors import EngineError, InputError, MissingExtra, Unreachable, UsageError
from phasewise.record.local import Answered, Ask, Asked, Failure, Introduction, Record, Recorded, Said, Settings
from phasewise.record.target import Capability, Target

INSTALL = "pip install 'phasewise[torch]'"

_CHILD = "phasewise.mark.local_child"
_MOST_CONFIG = 16 * 2**20
_ASTRAY = "The engine's process answered something else than it was asked: run it again."
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


class TorchEngine:
    """A model in a child process; implements ``engines.base.Engine``."""

    def __init__(self, child: _Child, about: Introduction, directory: str, settings: Settings, context: int) -> None:
        self._child = child
        self._prompts = TokenIds(about.vocabulary)
        limit = context if about.max_context is None else min(context, about.max_context)
        self._target = Target(
            name=f"hf:{clean(directory)}",
            engine="transformers",
            served_model=clean(Path(directory).resolve().name) or about.model,
            prompting="token_ids",
            endpoint="in process",
            max_context=limit,
            capabilities=(
                Capability(name="token_ids", present=True, detail="ids go straight into the forward"),
                Capability(name="streaming", present=True, detail="the time of each token is taken as it is made"),
                Capability(name="cached_tokens", present=True, detail="each request has a cache of its own"),
                Capability(name="metrics", present=False, detail="there are no counters: nobody else can ask"),
            ),
            settings=_shown(about, settings, limit),
        )
        self.about = about

    @property
    def target(self) -> Target:
        """What runs and how."""
        return self._target

    def prompt(self, tokens: int) -> Prompt:
        """A new prompt of exactly ``tokens`` random token ids.

        Raises:
            UsageError: none that long can be, or the context is shorter.
        """
        check(tokens, self._target.max_context)
        return self._prompts(tokens)

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        """Run one request; it ends by length, as nothing else stops it.

        Raises:
            EngineError: the model failed, or its process died.
        """
        return self.together([prompt], max_tokens)[0]

    def together(self, prompts: Sequence[Prompt], max_tokens: int) -> tuple[Answer, ...]:
        """Run requests with prompts of one length as the rows of one batch.

        Raises:
            EngineError: the model failed, or its process died.
        """
        said = self._child.ask(Ask(prompts=_ids(prompts), tokens=max_tokens))
        if isinstance(said, Failure):
            less = "a smaller --batch" if len(prompts) > 1 else "fewer tokens with --max-prompt"
            cure = f"give {less}" if said.memory else "see whether transformers runs this model"
            raise EngineError(f"The forward failed ({clean(said.text)}): {cure}.")
        if not isinstance(said, Answered):
            raise EngineError(_ASTRAY)
        return tuple(_answer(said, prompt, max_tokens) for prompt in prompts)

    def record(
        self, phase: Literal["prefill", "decode"], prompts: Sequence[Prompt], max_tokens: int, path: Path
    ) -> tuple[Answer, ...]:
        """Run requests under PyTorch's profiler and write a trace to ``path`` (``.json.gz``).

        Of ``prefill`` they come one after the other; of ``decode`` they are the rows of one batch, and the trace begins
        when its prefill is over.

        Raises:
            EngineError: the model failed, its process died, or the trace could not be written.
        """
        said = self._child.ask(Record(phase=phase, prompts=_ids(prompts), tokens=max_tokens, path=str(path)))
        if isinstance(said, Failure):
            less = "a shorter --prompt, or a smaller --batch"
            cure = f"give {less}" if said.memory else "see whether the run's folder has room"
            raise EngineError(f"The recording failed ({clean(said.text)}): {cure}.")
        if not isinstance(said, Recorded) or len(said.answers) != (1 if phase == "decode" else len(prompts)):
            raise EngineError(_ASTRAY)
        answers = said.answers * len(prompts) if phase == "decode" else said.answers
        return tuple(_answer(one, prompt, max_tokens) for one, prompt in zip(answers, prompts, strict=True))

    def activity(self) -> Activity | None:
        """None: there are no counters."""
        return None

    def close(self) -> None:
        """Stop the child. Safe to call twice."""
        self._child.stop()


def start(settings: Settings, *, context: int = 4096) -> TorchEngine:
    """Load the model that ``settings`` name in a child process, and wait until it is there.

    Raises:
        MissingExtra: torch or transformers is not installed beside phasewise.
        InputError: no directory of a transformers model, or one with code of its own.
        UsageError: settings that cannot be.
        EngineError: the model could not be loaded.
    """
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(f"hf: needs {' and '.join(missing)} in the Python that runs phasewise: {INSTALL}.")
    if context < 16 or (settings.threads is not None and not 1 <= settings.threads <= 1024):
        raise UsageError("A model in process takes 1 to 1024 threads and a context of 16 tokens or more.")
    refuse_code(Path(settings.directory), random_weights=settings.random_weights)
    child = _Child(msgspec.structs.replace(settings, directory=str(Path(settings.directory).resolve())))
    try:
        said = child.hear()
        if isinstance(said, Failure):
            shown = clean(settings.directory)
            raise InputError(f"transformers cannot load {shown} ({clean(said.text, 300)}): serve it and give its URL.")
        if not isinstance(said, Introduction):
            raise EngineError("The engine's process did not say what it runs: run it again.")
    except BaseException:
        child.stop()
        raise
    return TorchEngine(child, said, settings.directory, settings, context)


def _ids(prompts: Sequence[Prompt]) -> tuple[tuple[int, ...], ...]:
    return tuple(prompt.payload for prompt in prompts if not isinstance(prompt.payload, str))


def _answer(said: Answered, prompt: Prompt, max_tokens: int) -> Answer:
    if len(said.tokens) != max_tokens:
        raise EngineError(_ASTRAY)
    chunks = tuple(Chunk(at=at, read=number, tokens=1, empty=False) for number, at in enumerate(said.tokens))
    return Answer(
        sent_at=said.began,
        headers_at=said.began,
        first_at=said.tokens[0],
        last_at=said.tokens[-1],
        ended_at=said.ended,
        chunks=chunks,
        prompt_tokens=len(prompt.payload),
        completion_tokens=max_tokens,
        cached_tokens=0,
        finish_reason="length",
    )


def refuse_code(directory: Path, *, random_weights: bool = False) -> None:
    """Whether ``directory`` holds a transformers model that runs without any code of its own.

    Raises:
        InputError: it does not.
    """
    shown = clean(str(directory))
    try:
        with open(directory / "config.json", "rb") as file:
            config = json.loads(file.read(_MOST_CONFIG))
    except OSError as error:
        raise InputError(f"{shown}/config.json cannot be read ({error.strerror}): name a transformers model.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{shown}/config.json is not JSON: download it again.") from None
    if not isinstance(config, dict):
        raise InputError(f"{shown}/config.json is no JSON object: download it again.")
    if _names_code(config):
        raise InputError(
            f"{shown}/config.json names Python code of its own (auto_map), and phasewise executes none from a model "
            "directory: take auto_map out if transformers knows the model by itself, or serve it and give its URL."
        )
    if (directory / "adapter_config.json").exists():
        raise InputError(f"{shown} holds an adapter (adapter_config.json): merge it into the model first.")
    if not random_weights and not any(directory.glob("*.safetensors")):
        raise InputError(f"{shown} holds no .safetensors file: convert its weights, or give --random-weights.")


def _names_code(value: Any) -> bool:
    if isinstance(value, dict):
        return "auto_map" in value or any(map(_names_code, value.values()))
    return isinstance(value, list) and any(map(_names_code, value))


def _shown(about: Introduction, settings: Settings, context: int) -> dict[str, str]:
    device = f"{about.device} ({clean(about.device_name)})" if about.device_name else about.device
    return {
        "engine": about.engine,
        "class": clean(about.model),
        "device": device,
        "dtype": about.dtype,
        "attention": clean(about.attention),
        "threads": str(about.threads),
        "context": f"{context} tokens",
        "weights": "random" if settings.random_weights else "as in the directory",
        "prompt cache": "off",
        "parallel": "1 request, or the rows of one batch",
        "timed by": "CUDA events" if about.device == "cuda" else "the CPU's clock",
    }


class _Child:
    """The model's process. It ends when its standard input does: by ``stop``, or by our death, whatever its cause."""

    def __init__(self, settings: Settings) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        # -P: the working directory may be a model's, and nothing in it is to be imported.
        # A session of its own keeps Ctrl-C from it: the run that is interrupted ends it in its own time.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD, msgspec.json.encode(settings).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env={**os.environ, **_OFFLINE},
        )

    def ask(self, ask: Asked) -> Said:
        """Send one request and wait for what comes of it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # told below, with its last words
            self._process.stdin.write(msgspec.json.encode(ask) + b"\n")
            self._process.stdin.flush()
        return self.hear()

    def hear(self) -> Said:
        """The next thing that it says.

        Raises:
            Unreachable: it died.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise Unreachable(
                f"The engine's process died ({self._last_words()}): see whether the model fits into memory."
            )
        try:
            return msgspec.json.decode(line, type=Said)
        except msgspec.DecodeError:
            raise EngineError("The engine's process said what nobody understands: run it again.") from None

    def stop(self) -> None:
        """End it and wait for its end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written yet
                    pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"ended by signal {-code}"
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 16384))
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return clean(lines[-1]) if lines else f"exit code {code}"
