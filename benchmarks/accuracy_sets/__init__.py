"""The data sets that predictions are scored on, one file each."""
