"""Marks in the user's own code and in engines: phase bands, and model instrumentation."""
