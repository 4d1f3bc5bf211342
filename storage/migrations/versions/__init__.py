"""Revisions; the branch label is the database's name."""
