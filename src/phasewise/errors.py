"""Every error that phasewise raises on purpose.

PhasewiseError                    anything a user may meet; its text is one sentence with the next step
├── UsageError                    the user's mistake: a wrong flag, name, path or combination     exit 2
│   ├── InputError                a file that cannot be read as what it should be                 exit 2
│   └── MissingExtra              a feature whose package is not installed; names the command     exit 2
├── EngineError                   the engine or server did not do what was asked                  exit 3
│   ├── Unreachable               nothing answers, or the connection broke before an answer
│   ├── Refused                   an HTTP status that says no (401, 404, 429, 5xx)
│   ├── NotAnEngine               something answers, but it is not an LLM server
│   ├── Stalled                   no byte came within the time limit
│   └── BrokenStream              the stream ended early or was not what SSE or JSON promise
├── ImpossibleMeasurement         more than the machine can do: the verdict stops                 exit 3
└── Interrupted                   Ctrl-C or SIGTERM ended it before there was anything to show    exit 130 or 143

Terminated                        SIGTERM, as a KeyboardInterrupt: what handles Ctrl-C handles both
"""

from __future__ import annotations


class PhasewiseError(Exception):
    """Base of all errors that are told to the user in one sentence, without a traceback."""

    exit_code: int = 3


class UsageError(PhasewiseError):
    """The user's mistake."""

    exit_code = 2


class InputError(UsageError):
    """A file that cannot be read as what it should be; the text names the file, the place and the cure."""


class MissingExtra(UsageError):
    """A feature whose package is not installed; the text names the command that brings it."""


class EngineError(PhasewiseError):
    """The engine or server did not do what was asked."""


class Unreachable(EngineError):
    """Nothing answers at the address, or the connection broke before an answer."""


class Refused(EngineError):
    """The server answered with a status that says no.

    ``status`` is the HTTP status code.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotAnEngine(EngineError):
    """Something answers, but not as an LLM server."""


class Stalled(EngineError):
    """No byte came within the time limit."""


class BrokenStream(EngineError):
    """The stream ended early, or was not what SSE or JSON promise."""


class ImpossibleMeasurement(PhasewiseError):
    """A utilisation whose lower end is over 100%: the verdict stops here."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


class Interrupted(PhasewiseError):
    """Ctrl-C or SIGTERM, as ``by`` says, ended the command before there was anything to show."""

    def __init__(self, message: str, by: KeyboardInterrupt) -> None:
        super().__init__(message)
        self.exit_code = 143 if isinstance(by, Terminated) else 130
