"""What compiled algorithms share.

Lives here: how a function becomes machine code, who holds what meanwhile. May not: hold an algorithm. May import: ``problem``.
"""
