"""What a cluster is asked besides the control log: topics, members, offsets, retention, ends of transactions.

Lives here: one module for each question. May not: know the control log or the audit. May import: ``ports`` and what stands below
them, confluent-kafka and kafka-python.
"""
