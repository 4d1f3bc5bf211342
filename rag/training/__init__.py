"""Training of heads on labelled files and on a collection's own documents."""
