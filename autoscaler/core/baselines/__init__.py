"""The published latency-aware policies, exactly as printed, to compare the default with.

Imported only where the configuration names one (``sizing``). May import: ``packing``, ``model``.
"""
