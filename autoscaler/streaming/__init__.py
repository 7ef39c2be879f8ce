"""The Spark half: brokers are read as a streaming source, rates and lag are computed per partition over a window.

Lives here: the data source, the stateful window, the query, the watchdog; everything left of values. May not: know ``adapters``
or ``controller``; a batch leaves as plain ``LoadSnapshot`` values. May import: ``config``, ``clients`` and what stands below.
"""
