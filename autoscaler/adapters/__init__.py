"""The ports' implementations: Kafka, worker processes, the Delta audit, the clock.

Lives here: everything that talks to a service or reads a disk on behalf of the controller, one folder for each service. Client
exceptions become ``autoscaler.errors`` here. May not: decide anything, or know ``streaming`` or ``controller``. May import:
``ports``, ``packing``, ``config``, ``clients``, ``handover`` and what stands below them.
"""
