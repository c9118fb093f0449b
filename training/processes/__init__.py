"""The processes of a segment: how they are started on each node, watched, and ended."""
