"""Workers as pods of a Deployment, and numbers of replicas of any resource.

Lives here: the pool (``deployment_pool``), what it reads of pods and of the Deployment (``pod``, ``deployment``), which pod goes
where (``steps``), the number of a resource with a scale (``scale_number``), how such a number is set (``replicas``), and how the
Kubernetes API is asked and followed (``api``, ``followed``). Loaded only where a group has such
workers: it needs the extra ``kubernetes``, which ``api`` alone imports. May not: decide which slots run. May import: ``ports``,
``config``, ``model``, ``concurrency``, ``errors``, kubernetes.
"""
