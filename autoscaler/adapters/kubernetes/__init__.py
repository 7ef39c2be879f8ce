"""The Kubernetes API, for each adapter that needs it.

Lives here: how the API is asked (``api``), and how a collection of objects is followed without polling (``followed``). Loaded
only where something of Kubernetes is configured: it needs the extra ``kubernetes``, which ``api`` alone imports. May not: know a
kind of object. May import: ``errors``, kubernetes.
"""
