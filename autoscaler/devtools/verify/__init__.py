"""The check of a run: recomputes from the outside what the autoscaler claims.

It reads the topic, the workers' append-only logs and the Delta tables, and shares no code with what it checks, which imports
nothing of it either. May import: ``errors``, for its exit codes.
"""
