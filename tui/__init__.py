"""The terminal: commands and the full-screen app. It knows `slotrag.rag` and nothing below it."""
