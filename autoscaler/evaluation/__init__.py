"""The published experiments, run again: algorithms on streams, figures, tables and a page.

Lives here: streams, the simulator, what was published beside it. ``jobs/evaluate.py`` runs it on Spark. May not: be imported by
the controller. May import: ``packing`` only.
"""
