"""Detect anomalies in a stream of metrics, with pure functions."""
