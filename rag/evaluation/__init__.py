"""Measurements: how good the parts of slotrag are on data whose answers are known. Used by ``slotrag eval``."""
