"""What one consumer can do: configured, measured, or assumed until then; and what more consumers achieve.

Lives here: one module for each way of measuring. A new signal of consumers, such as processor time, goes here. May not: know a
group's kind or a rule. May import: ``core.load``, ``config.policy``, ``model``.
"""
