"""Workers as pods of a Deployment.

Lives here: the pool (``deployment_pool``), what it reads of pods and of the Deployment (``pod``, ``deployment``), which pod goes
where (``steps``), and how the Kubernetes API is asked and followed (``api``, ``followed``). Loaded only where a group has such
workers: it needs the extra ``kubernetes``, which ``api`` alone imports. May not: decide which slots run. May import: ``ports``,
``config``, ``model``, ``errors``, kubernetes.
"""
