"""Back ends of attention, one per file, and the table of back ends."""
