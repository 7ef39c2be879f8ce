"""An S3-compatible server on loopback, as a process of its own that can go away and come back with what it held."""

import http.client
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.until import until

BUILD = Path(__file__).resolve().parents[1] / ".ci" / "object-store"
NO_GO = 3  # how BUILD ends without Go
BUCKET = "state"
_ROOM = 64 << 20  # bytes; all that tests keep


def binary() -> Path:
    """Return the server's program; built the first time, and the test is skipped without Go."""
    done = subprocess.run([BUILD], capture_output=True, text=True, check=False)
    if done.returncode == NO_GO:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


class ObjectStore:
    """One bucket, on a port that stays the same."""

    def __init__(self, directory: Path) -> None:
        """Run while the context lasts; what is stored lies in a file in ``directory``."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return what tells deltalake of it."""
        return {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip

    def hadoop(self) -> dict[str, str]:
        """Return what tells Hadoop of it."""
        return {
            "fs.s3a.endpoint": self.endpoint, "fs.s3a.endpoint.region": "us-east-1", "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.access.key": "key", "fs.s3a.secret.key": "secret",
        }  # fmt: skip

    def start(self) -> None:
        where = ["-backend", "bolt", "-bolt.db", str(self._directory / "store.db"), "-initialbucket", BUCKET]
        with (self._directory / "store.log").open("ab") as log:
            command = [str(binary()), *where, "-host", f"127.0.0.1:{self.port}"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until("the store listens", self._listens, every_s=0.05)

    def _make_room(self) -> None:
        """Let the server's file grow now: growing while an object is copied, it reads memory that is gone, and dies."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            for method, data in (("PUT", bytes(_ROOM)), ("DELETE", None)):
                connection.request(method, f"/{BUCKET}/room", data)
                answer = connection.getresponse()
                answer.read()
                assert answer.status < http.HTTPStatus.BAD_REQUEST, answer.status
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _listens(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Self:
        self.start()
        self._make_room()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
