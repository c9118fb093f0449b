"""Pure functions of a configuration: parameters, batches, schedules, memory, durations. This package does not
import torch."""
