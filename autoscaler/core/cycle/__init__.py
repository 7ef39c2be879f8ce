"""What the rules of one cycle look at: the inputs as read, how full consumers are, and the step a rule answers with.

Lives here: ``evaluate`` builds the ``Cycle`` of ``context``. May not: hold a rule. May import: ``sizing``, ``group`` and below.
"""
