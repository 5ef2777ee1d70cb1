"""Marks in the user's own code and in engines: phase bands, model instrumentation, the vLLM plugin. Empty so far."""
