"""The configuration file: settings, checks of them, and what of a changed file holds at once.

Lives here: pydantic models of what an operator writes, the frozen ``Policy`` that decisions read, clusters, calendar windows,
changes of single settings in the file. May not: resolve a secret or make a client. May import: ``clients``, ``handover`` (its
limits), ``topic_selection``, ``errors``.
"""
