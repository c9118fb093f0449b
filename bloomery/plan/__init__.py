"""Pure arithmetic about a run: batches, schedule, parameters, layout, FLOPs, the DeepSpeed JSON. Imports no torch."""
