"""The mesh of ranks, tensor-parallel layers, and the collectives between tensor-parallel ranks."""
