"""A training of months, played event by event against failures, maintenances and queues."""
