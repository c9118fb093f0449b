"""General-purpose tools without knowledge of the domain: atomic files, digests, errors, units, progress, and clients
for the Hub and SLURM."""
