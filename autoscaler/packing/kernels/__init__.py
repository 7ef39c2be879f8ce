"""What compiled algorithms share: how a function becomes machine code, and who holds what while a plan is made.

May import: ``problem``.
"""
