"""What the job answers over HTTP: metrics for Prometheus, each group's advice for scalers, and whether the job is well.

Lives here: the server, the metrics, the page with its JSON, and the same as one file. Off unless the configuration names an
address. May not: change anything, or hold up a cycle. May import: ``ports``, ``core``, ``model`` and what stands below,
prometheus_client and pydantic.
"""
