"""Clients that are not made leave nothing behind."""

import gc
import socket
import threading
import time

import psutil
import pytest

from autoscaler.clients.kafka_python import connect
from autoscaler.errors import TransientError


def test_a_client_that_gets_no_answer_leaves_no_connection_and_no_thread() -> None:
    """The broker takes the connection and then ends, or stands still."""
    me = psutil.Process()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        before = threading.active_count()
        with pytest.raises(TransientError):
            connect({"bootstrap.servers": f"127.0.0.1:{port}"}, time.monotonic() + 0.5)
        opened = [c for c in me.net_connections("tcp") if c.raddr and c.raddr.port == port]
        assert (opened, threading.active_count()) == ([], before)
    gc.collect()  # what is left to the collector is a warning, and so an error
