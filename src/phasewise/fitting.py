"""Least squares with intervals."""
