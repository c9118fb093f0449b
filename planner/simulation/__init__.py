"""Simulate a training of months, event by event, with failures, maintenances and queues."""
