"""A recipe before the user."""

from __future__ import annotations

from phasewise.record.recipe import Recipe
from phasewise.report.stdout import document


def show(recipe: Recipe, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        from phasewise.report.json.leaves import document as tree

        document(tree(recipe))
        return
    from phasewise.report.terminal import print_report
    from phasewise.report.terminal.recipes import recipe as text

    print_report(text(recipe))
