"""A real Kubernetes control plane on this machine: etcd, API server, controllers and scheduler, each a process of one binary.

``.ci/control-plane`` builds the binary. There is no kubelet and no container here: ``kubelet.py`` runs pods as local processes.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".ci" / "control-plane"
NO_GO = 3  # how .ci/control-plane ends where Go is missing
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "disruption-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
)
NODE_GRACE_S = 8  # a node that has not been heard for so long is not ready
FORGETFUL = ("--watch-cache=false", "--etcd-compaction-interval=2s")  # an API server that remembers a few seconds
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane:
    """Started by ``with``; everything that it keeps lies in ``directory``, each part's output in ``NAME.log``.

    Attributes:
        url: Where the API server answers; stays the same when that is restarted.
    """

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary, self._directory = binary, directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens = {user: secrets.token_hex(16) for user in ("admin", "controllers", "scheduler")}
        self._etcd, self._port = f"http://127.0.0.1:{_free_port()}", _free_port()
        self.url = f"https://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        """Start all parts, and return once the API server is ready."""
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all parts, the newest first; nothing of it is needed again."""
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._processes.clear()

    # --- who connects ---

    def connect(self, token: str | None = None) -> client.ApiClient:
        """Return a client with this token; as an administrator without one."""
        settings = client.Configuration()
        config.load_kube_config_from_dict(self.kubeconfig(token), client_configuration=settings)
        settings.connection_pool_maxsize = 32
        return client.ApiClient(settings)

    def kubeconfig(self, token: str | None = None) -> dict[str, Any]:
        """Return what a client needs to connect: address, certificate and token."""
        cluster = {"server": self.url, "certificate-authority": str(self._directory / "certs" / "apiserver.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token or self._tokens["admin"]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }

    def token_of(self, namespace: str, service_account: str, *, seconds: int = 3600) -> str:
        """Return a new token of a service account; the API server refuses less than ten minutes."""
        asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=seconds))
        core = client.CoreV1Api(self.connect())
        given = core.create_namespaced_service_account_token(service_account, namespace, asked)
        return str(given.status.token)

    def audit_log(self) -> list[dict[str, Any]]:
        """Return every request that the API server has answered: who asked, for what, and with which code."""
        file = self._directory / "audit.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    # --- its parts ---

    def rights_used(self, namespace: str, *, account: str = "default", refused_too: bool = False) -> set[tuple[str, str, str]]:
        """Return what a namespace's service account has asked of resources and was answered well.

        What every account may look up, which kinds there are, is no right of its own. With ``refused_too`` it may have been
        refused some, which do not count.
        """
        user = f"system:serviceaccount:{namespace}:{account}"
        asked = [e for e in self.audit_log() if e["user"].get("username") == user and "objectRef" in e]
        if refused_too:
            asked = [e for e in asked if e["responseStatus"]["code"] != HTTPStatus.FORBIDDEN]
        assert all(e["responseStatus"]["code"] < HTTPStatus.BAD_REQUEST for e in asked), asked
        about = [(e["objectRef"], e["verb"]) for e in asked if "resource" in e["objectRef"]]
        return {(o.get("apiGroup", ""), "/".join(filter(None, (o["resource"], o.get("subresource")))), v) for o, v in about}

    @contextmanager
    def frozen(self, part: str) -> Iterator[None]:
        """Let a part do nothing for a while."""
        self._processes[part].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes[part].send_signal(signal.SIGCONT)

    def kill_api_server(self) -> None:
        """Kill the API server; what is in etcd stays."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def start_api_server(self, *flags: str) -> None:
        """Start the API server where it was, and return once it is ready."""
        at = self._directory
        key = at / "service-accounts.key"
        self._start(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={at}/certs",
            f"--token-auth-file={at}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            f"--audit-policy-file={at}/audit-policy.json",
            f"--audit-log-path={at}/audit.jsonl",
            *flags,
        )

        def ready() -> bool:
            self._all_alive()  # before the server has written its certificate no client can be made
            api = self.connect()
            asked = api.param_serialize("GET", "/readyz", auth_settings=["BearerToken"])
            return bool(api.call_api(*asked, _request_timeout=2).status == HTTPStatus.OK)

        until("the API server is ready", ready, passing=(OSError, HTTPError, config.ConfigException), explain=self._said)

    def _start_all(self) -> None:
        at = self._directory
        at.mkdir(parents=True, exist_ok=True)
        users = {
            "admin": 'admin,1,"system:masters"',
            "controllers": "system:kube-controller-manager,2",
            "scheduler": "system:kube-scheduler,3",
        }
        lines = [f"{self._tokens[user]},{columns}" for user, columns in users.items()]
        (at / "tokens.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (at / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY), encoding="utf-8")
        key = at / "service-accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        self._start("etcd", str(at / "etcd"), self._etcd, f"http://127.0.0.1:{_free_port()}")
        self.start_api_server()
        self._start(
            "kube-controller-manager",
            f"--controllers={','.join(CONTROLLERS)}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={at}/certs/apiserver.crt",
            "--authentication-kubeconfig=",
            "--authorization-kubeconfig=",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_S}s",
            *self._as_client("controllers"),
        )
        self._start("kube-scheduler", *self._as_client("scheduler"))

    def _as_client(self, user: str) -> Sequence[str]:
        file = self._directory / f"{user}.kubeconfig"
        file.write_text(json.dumps(self.kubeconfig(self._tokens[user])), encoding="utf-8")
        rates = ("--kube-api-qps=200", "--kube-api-burst=400")
        return (f"--kubeconfig={file}", "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0", *rates)

    def _start(self, part: str, *flags: str) -> None:
        with (self._directory / f"{part}.log").open("ab") as out:
            self._processes[part] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", self._binary, part, *flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "GOMAXPROCS": "2"},
            )

    def _all_alive(self) -> None:
        ended = {part: p.returncode for part, p in self._processes.items() if p.poll() is not None}
        if ended:
            msg = f"the control plane has ended: {ended}\n{self._said()}"
            raise RuntimeError(msg)

    def _said(self) -> str:
        logs = {part: (self._directory / f"{part}.log").read_text(encoding="utf-8")[-1500:] for part in self._processes}
        return "\n".join(f"--- {part}\n{text}" for part, text in logs.items())


def _free_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
