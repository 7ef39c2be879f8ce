"""Brokers that take nobody at his word: certificates of both sides, or passwords that never travel; and ACLs in both."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from autoscaler.devtools.broker import Broker

Connection = dict[str, str | int | float | bool]
PEOPLE = ("admin", "job", "worker")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Certificates:
    """An authority, and what it has signed, as files."""

    def __init__(self, directory: Path) -> None:
        """Make the authority and the broker's certificate."""
        directory.mkdir(parents=True)
        self.directory, self._authority = directory, trustme.CA()
        self.authority = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.authority))
        self.of("broker", "127.0.0.1")

    def of(self, name: str, *hosts: str, until: float | None = None) -> tuple[Path, Path]:
        """Sign a new certificate for a name, and return where it and its key lie; an older one of that name is replaced.

        It is good for years, or until an instant (Unix seconds).
        """
        over = None if until is None else datetime.fromtimestamp(until, UTC)
        signed = self._authority.issue_cert(*(hosts or (f"{name}.invalid",)), common_name=name, not_after=over)
        chain = b"".join(c.bytes() for c in signed.cert_chain_pems)
        key = load_pem_private_key(signed.private_key_pem.bytes(), None)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # what the broker reads
        where = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        where[0].write_bytes(chain)
        where[1].write_bytes(text)
        (self.directory / f"{name}-both.pem").write_bytes(text + chain)
        return where

    def settings(self) -> dict[str, str]:
        """Return what the broker is told of them."""
        return {
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.directory / "broker-both.pem"),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }  # fmt: skip


_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:admin;User:broker;User:ANONYMOUS",  # nobody: between the broker and its own controller
}


class CertificateBroker(Broker):
    """Knows people by their certificates only (mutual TLS)."""

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        """Sign certificates for everybody."""
        self.certificates = Certificates(directory)
        for name in PEOPLE:
            self.certificates.of(name)
        guarded = {**_GUARDED, **self.certificates.settings(), "ssl.client.auth": "required", **(settings or {})}
        guarded["listener.security.protocol.map"] = "CLIENT:SSL,CONTROLLER:PLAINTEXT"
        super().__init__(heap_mb=160, settings=guarded)

    def connection(self, user: str = "admin") -> Connection:
        """Return how somebody connects with a certificate."""
        at = self.certificates.directory
        return {
            "bootstrap.servers": self.bootstrap, "security.protocol": "SSL", "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(at / f"{user}.pem"), "ssl.key.location": str(at / f"{user}.key"),
        }  # fmt: skip


class PasswordBroker(Broker):
    """Knows people by SCRAM over TLS; their passwords lie in files, and connections only refer to these."""

    def __init__(self, directory: Path) -> None:
        """Sign the broker's certificate; ``start`` makes the users."""
        self.certificates = Certificates(directory)
        login = f'{_PLAIN} required username="admin" password="of-admin" user_admin="of-admin";'
        super().__init__(heap_mb=160, settings={
            **_GUARDED, **self.certificates.settings(),
            "listener.security.protocol.map": "CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": login,
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        })  # fmt: skip

    def password(self, user: str) -> Path:
        """Return where somebody's password lies."""
        return self.certificates.directory / f"{user}.password"

    def set_password(self, user: str, password: str) -> None:
        """Tell the broker a user's new password, and write it where the user's connection refers to."""
        admin = AdminClient({**self.connection(), "log_level": 0})
        made = UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), password.encode())
        for future in admin.alter_user_scram_credentials([made]).values():
            future.result(30)
        self.password(user).write_text(password, encoding="utf-8")

    def connection(self, user: str = "admin") -> Connection:
        """Return how somebody connects; the password by reference, but for the administrator's."""
        common: Connection = {
            "bootstrap.servers": self.bootstrap, "security.protocol": "SASL_SSL", "sasl.username": user,
            "ssl.ca.location": str(self.certificates.authority),
        }  # fmt: skip
        if user == "admin":
            return {**common, "sasl.mechanism": "PLAIN", "sasl.password": "of-admin"}
        return {**common, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": f"file:{self.password(user)}"}
