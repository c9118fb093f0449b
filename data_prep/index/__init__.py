"""Turn clean shards into Megatron token files, and token files into the arrays that training reads."""
