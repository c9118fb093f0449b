"""Sources to shards, measures, verdicts and a mixture."""
