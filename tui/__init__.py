"""The terminal: commands over `slotrag.rag.Library`. It has no logic of its own beyond asking and showing."""
