"""One cycle of one group: observe, decide, act, record; and the groups of several clusters side by side.

Lives here: where what is decided is carried out or, in mode advise, is not; and the only broad ``except``. It decides nothing
(``core`` does) and talks to no service (``ports`` do). May not: import ``adapters`` or ``streaming``. May import: ``ports`` and
what stands below.
"""
