"""The catalogues before the user."""

from __future__ import annotations

from phasewise.record.catalogue import AcceleratorFacts, ModelEntry
from phasewise.report.stdout import document


def models(rows: tuple[ModelEntry, ...], *, as_json: bool) -> None:
    """Print rows of the models."""
    if as_json:
        from phasewise.report.json import catalogues as documents

        document(documents.models(rows))
        return
    from phasewise.report.terminal import catalogues, print_report

    print_report(catalogues.models(rows))


def accelerators(rows: tuple[AcceleratorFacts, ...], *, as_json: bool) -> None:
    """Print rows of the accelerators."""
    if as_json:
        from phasewise.report.json import catalogues as documents

        document(documents.accelerators(rows))
        return
    from phasewise.report.terminal import catalogues, print_report

    print_report(catalogues.accelerators(rows))
