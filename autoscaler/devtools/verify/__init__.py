"""The check of a run: recomputes from the outside what the autoscaler claims.

Lives here: reading the topic, the workers' append-only logs and the Delta tables, and one rule for each claim. May not: share
code with what it checks, in either direction. May import: ``errors``, for its exit codes.
"""
