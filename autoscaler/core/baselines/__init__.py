"""The published latency-aware policies, exactly as printed, to compare the default with.

Lives here: one function for each. May not: be imported but where ``sizing`` names one. May import: ``packing``, ``model``.
"""
