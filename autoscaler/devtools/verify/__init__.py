"""The check of a run: recomputes from the outside what the autoscaler claims.

It reads the topic, the workers' append-only logs and the Delta tables, and shares no code with what it checks: nothing of
this package imports anything of ``autoscaler`` outside it, nor the other way round.
"""
