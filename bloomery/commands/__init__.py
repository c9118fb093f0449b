"""Verbs of the frame: commands that do not belong to a single room."""
