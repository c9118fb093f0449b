"""Import a transformers folder as a checkpoint: read its network and weights, and write them for any layout."""
