"""The frame's own verbs: what is not a run of the workflow."""
