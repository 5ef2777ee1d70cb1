"""The kinds of feed-forward networks, one file each."""
