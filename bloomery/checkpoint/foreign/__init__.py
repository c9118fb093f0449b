"""Read checkpoints of Megatron-DeepSpeed, which other projects trained: layer files and universal checkpoints."""
