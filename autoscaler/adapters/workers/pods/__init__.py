"""Workers as pods of a Deployment, and numbers of replicas of any resource.

Lives here: the pool (``deployment_pool``), what it reads of pods and of the Deployment (``pod``, ``deployment``), which pod goes
where (``steps``), the number of a resource with a scale (``scale_number``), and how such a number is set (``replicas``). Loaded
only where a group has such workers. May not: decide which slots run. May import: ``adapters.kubernetes``, ``ports``, ``config``,
``model``, ``concurrency``, ``errors``.
"""
