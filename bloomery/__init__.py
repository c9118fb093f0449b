"""The frame that all rooms import: base tools, configuration, contracts, shared specifications. Only `cli.py` imports
rooms."""

__version__ = "0.1.0"
