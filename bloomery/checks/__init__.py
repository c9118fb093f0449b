"""Checks between sections of a configuration: each finds values that are valid alone but contradict each other."""
