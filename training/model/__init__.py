"""The network as a list of pipeline layers, and its initial weights."""
