"""Placement by two demands at once: fill, exchange, empty, and give contents to who holds most of them already.

May import: ``kernels``, ``problem``.
"""
