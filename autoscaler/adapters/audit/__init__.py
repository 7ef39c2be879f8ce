"""The audit: decisions, actions, handovers and loads as rows of Delta tables, and the log line of each cycle.

Lives here: rows and tables, the buffer and the thread that writes it, the journal that survives a crash, the views. A new column
goes into ``tables`` and ``rows``; ``balance_table`` is of the job that balances brokers. May not: hold up a cycle. May import:
``ports``, ``brokers``, ``core.group``, ``core.load``, ``model``, ``errors``, ``config``, ``jars``, Arrow, deltalake; Spark only
in ``delta_audit``, ``upkeep`` and ``writer_turn``.
"""
