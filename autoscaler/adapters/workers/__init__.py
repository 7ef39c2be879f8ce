"""Worker pools: what starts, drains, ends and restarts the consumers of a group.

Lives here: one module for each kind of pool, and its records of what it has started. A new pool implements ``ports.WorkerPool``
and passes the suite of ``tests/contracts``. May not: decide how many workers run. May import: ``ports`` and what stands below.
"""
