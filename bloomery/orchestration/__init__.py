"""The Python behind the rules: scheduler, site, run lock, job environment, and what a run's workflow has to prepare."""
