"""The frame that every room stands in: base tools, config, contracts, plan. Imports no room (only `cli.py` does)."""

__version__ = "0.1.0"
