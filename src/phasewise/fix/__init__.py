"""A verdict to remedies, each with its predicted gain and how to verify it.

One file per remedy; the list is in fix.py.
"""
