"""Decisions about a group: pure functions of what was observed, remembered and asked for."""
