"""What should change: one module for each kind of reason to change a group.

Lives here: the rules, and in ``tables`` which of them hold for which kind of group, in which order. A rule takes the ``Cycle``
and answers with a ``Step`` or nothing; guards say how far it may go. May not: build a sentence. May import: ``guards``, ``cycle``
and below.
"""
