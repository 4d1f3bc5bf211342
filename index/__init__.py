"""Vectors to nearest ids: the index interface and its FAISS form."""
