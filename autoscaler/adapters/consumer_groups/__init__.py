"""Groups that are declared as resources of Kubernetes: they are followed, and told what becomes of them.

Lives here: the watch (``watch``), what a resource's status says (``status``) and who writes it (``writer``), events
(``events``). Loaded only where
``kubernetes.consumer_groups`` is set. May not: decide which resources hold, which ``config.consumer_groups`` does. May import:
``adapters.kubernetes``, ``ports``, ``config``, ``model``, ``errors``.
"""
