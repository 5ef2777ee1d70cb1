"""The kinds of mixers, one file each."""
