"""Traces: what a profiler wrote, as one event model; then whose time it was.

readers/ fill `events.Trace`; opening.py chooses the reader by content and joins the ranks; attribution.py finds the
launch and the step of every kernel; steps.py and phase.py say what each step was; families.py and roles.py what each
kernel was; busy.py how the time adds up; section.py hands it on as the record's `Traced`.
"""
