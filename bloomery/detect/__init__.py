"""Detect anomalies in a stream of metrics. The detectors read no clock and no file."""
