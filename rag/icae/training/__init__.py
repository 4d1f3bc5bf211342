"""Training of compressors: data, objectives, the loop, and what a check measures."""
