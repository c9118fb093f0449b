"""Token index in, checkpoints out: 3D-parallel training of a GPT on DeepSpeed's pipeline engine."""
