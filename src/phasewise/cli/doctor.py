"""`phasewise doctor`."""

from __future__ import annotations

from phasewise.cli import flags


def doctor(as_json: flags.Json = False) -> int:
    """What can be measured on this machine and by this user, and what to do about the rest.

    Each line is ok, missing (not here, or switched off) or blocked (here, but unusable, or spoiling measurements), with
    the command that cures it. Nothing is changed. It ends with the verbs that work here.
    """
    from phasewise.jobs.doctor import doctor as job
    from phasewise.report import doctor as shown

    shown.show(job(), as_json=as_json)
    return 0
