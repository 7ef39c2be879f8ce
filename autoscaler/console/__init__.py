"""What a person watches on a terminal: the live view of a running job, drawn from its line per cycle.

Lives here: reading ``cycles.jsonl``, drawing groups, refreshing the screen, ``autoscaler status``. May not: touch the job.
May import: ``ports`` (the clock), ``core`` (words of its sentences), ``model``, ``errors`` (exit codes), rich and pydantic.
"""
