"""What a change would do to each phase. One file per change; the list is in ``changes``."""
