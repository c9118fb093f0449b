"""Formats of the files that data_prep, training, export, monitoring and planner exchange.

These packages do not import each other.
"""
