"""Files to text with its structure: one file for each kind, chosen by content first, then by suffix."""
