"""The Run that stages hand on: an envelope of typed sections, one file per section."""
