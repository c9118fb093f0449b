"""The network, as a list of pipeline layers."""
