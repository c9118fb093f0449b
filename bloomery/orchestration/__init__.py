"""Python code behind the Snakemake rules: the plan of a run, the run lock, site files, SLURM jobs, and rehearsals."""
