"""Clean shards to Megatron token files, and token files to the arrays that training reads."""
