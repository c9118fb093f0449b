"""3D-parallel training of a GPT on DeepSpeed's pipeline engine. It reads the token index and writes checkpoints."""
