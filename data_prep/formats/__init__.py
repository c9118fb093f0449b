"""Formats of the files that stages of data preparation exchange."""
