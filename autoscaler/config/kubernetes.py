"""Settings of a job that looks after groups that are declared in Kubernetes, or runs there. Part of *settings*."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

ALL = "all"
_NAMESPACE = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_LEASE = re.compile(r"^(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")


def _namespace(value: str) -> str:
    if not _NAMESPACE.match(value):
        raise ValueError(f"must be a namespace's name, or {ALL}, not {value!r}")
    return value


def _lease(value: str) -> str:
    if not _LEASE.match(value):
        raise ValueError(f"must be the name of a Lease, small letters, digits, '-' and '.', not {value!r}")
    return value


class Kubernetes(BaseModel):
    """Where groups are declared in Kubernetes, besides those of the file, and the Lease of a job that runs there."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    consumer_groups: Annotated[str, AfterValidator(_namespace)] | None = None
    """namespace whose ConsumerGroups are looked after too, or all; null: none; see docs/tasks/declare.md"""
    lease: Annotated[str, AfterValidator(_lease)] | None = None
    """Lease in the job's namespace that it needs to act, of several jobs one; null: none; see docs/tasks/job-in-kubernetes.md"""
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    """file that says how to connect; null: as the job's own pod does, elsewhere ~/.kube/config"""
    context: Annotated[str, Field(min_length=1)] | None = None
    """context of that file; null: its current one"""
