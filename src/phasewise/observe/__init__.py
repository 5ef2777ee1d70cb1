"""See the package map in README.md."""
