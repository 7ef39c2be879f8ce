"""May this step be taken now? One ordered table of guards.

Lives here: ``table`` (the rows, in order, hard or soft) and ``conditions`` (what each row asks). A new guard is a row in
``table``. May not: choose a step; rules do. May import: ``cycle`` and below.
"""
