"""MMR and HFD, the two simpler algorithms. May import: ``pace``, ``kernels``, ``problem``."""
