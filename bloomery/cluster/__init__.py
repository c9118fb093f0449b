"""Setting a cluster up: what SLURM says of it, the site's file, the questions between them."""
