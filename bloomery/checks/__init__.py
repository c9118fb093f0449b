"""Checks between keys and sections of a configuration. Each check finds values that are valid alone but contradict each
other."""
