"""What a training goes on from, and what it leaves out. Imports no torch: a login node decides it."""
