"""Run one segment of training: engine, control polls, checkpoints, validation and metrics."""
