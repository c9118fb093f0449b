"""Turn sources into shards, measures, verdicts, a clean corpus and a mixture."""
