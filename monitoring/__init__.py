"""Monitoring of runs: status, summary, tail, plots, and the synchronisation of logs with a Hub."""
