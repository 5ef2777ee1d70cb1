"""The one place where prediction meets observation."""
