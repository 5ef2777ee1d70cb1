"""An examination before the user."""

from __future__ import annotations

from phasewise.record.doctor import Examination
from phasewise.report.stdout import document


def show(examination: Examination, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        from phasewise.report.json.doctor import doctor as tree

        document(tree(examination))
        return
    from phasewise.report.terminal import print_report
    from phasewise.report.terminal.doctor import doctor as text

    print_report(text(examination))
