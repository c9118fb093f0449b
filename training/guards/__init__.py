"""What watches over a training: replicas that drift, spikes, values that are not finite."""
