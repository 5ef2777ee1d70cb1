"""Run exactly one phase on an engine, and prove that it was clean."""
