"""From a measurement to rates that can be packed, with what is unknown kept apart.

Lives here: rates and backlog of a group, progress of each partition, what its consumers commit, markers of transactions, how old
records are as they are processed, and records that are about to be deleted unread. May not: take what is unknown for zero. May
import: ``model``, ``handover`` (places of ages), ``topic_selection``.
"""
