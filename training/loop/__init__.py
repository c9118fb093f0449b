"""One segment of training: engine, control, checkpoints, validation, metrics."""
