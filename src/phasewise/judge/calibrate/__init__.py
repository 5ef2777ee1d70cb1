"""Calibration: measured steps to an efficiency, with an interval that covers what it claims."""
