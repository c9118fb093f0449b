"""The frame: code that the rooms (`data_prep`, `training`, `export`, `monitoring`, `planner`) share, such as base
tools, configuration, contracts and specifications. Only `cli.py` imports rooms."""

__version__ = "0.1.0"
