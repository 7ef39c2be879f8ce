"""One cycle of one group: observe, decide, act, record; and the groups of several clusters side by side.

Lives here: the only place where advising and acting differ, and the only broad ``except``. It decides nothing (``core`` does) and
talks to no service (``ports`` do). May not: import ``adapters`` or ``streaming``.
"""
