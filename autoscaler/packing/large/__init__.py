"""Best fit and home fit for a million partitions, by whole levels of the capacity. May import: ``kernels``, ``problem``."""
