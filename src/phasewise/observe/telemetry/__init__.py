"""Telemetry: what a monitor wrote beside a run, as one series per device.

text.py opens a file, the readers fill `rows.Row`s, series.py makes columns of them, times.py says when they were, by a
clock that all share. A reader never says what time zone its file is in when the file does not.
"""
