"""How many consumers: what the planner is asked, how loaded the present consumers are, how many would do.

Lives here: ``size`` and ``planner`` for groups placed by this controller, ``native_outlook`` for those placed by Kafka. May not:
know a rule or a guard. May import: ``group`` and below.
"""
