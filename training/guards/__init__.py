"""Guards that detect drifted replicas, spikes, slow divergence and values that are not finite, and record incidents."""
