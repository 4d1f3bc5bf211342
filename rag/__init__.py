"""Folder to library to answer: readers, splitting, indexing, retrieval, the decoder and answering."""
