"""A broker, a load, consumers and the demo: what developers and newcomers run on one machine.

Lives here: everything that starts real programs for show or test, and ``verify``, which checks a finished run from the outside.
May not: be imported by the job or by a worker. May import everything but ``service`` and ``evaluation``.
"""
