"""How the network is split: the mesh of ranks and the tensor-parallel layers."""
