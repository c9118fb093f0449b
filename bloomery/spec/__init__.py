"""Pure functions of a configuration: parameters, batches, schedules, memory, durations. Imports no torch."""
