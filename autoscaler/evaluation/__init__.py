"""The published experiments, run again: algorithms on streams, figures, tables and a page.

Lives here: streams, the simulator, what was published beside it. ``jobs/evaluate.py`` runs it on Spark. May import: ``packing``
only; nothing of the controller imports it.
"""
