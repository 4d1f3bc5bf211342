"""The commands, one file each, imported when one is called."""
