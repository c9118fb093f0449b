"""The frame: the packages that every room imports (base tools, configuration, contracts, shared specifications). Only
`cli.py` imports rooms."""

__version__ = "0.1.0"
