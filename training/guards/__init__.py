"""Guards that detect drifted replicas, spikes and values that are not finite, and record incidents."""
