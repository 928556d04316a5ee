"""The link that fails, between a client and a server that answers each line with itself."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from lagless.lab.parts.faulty_link import FaultyLink


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line)


@pytest.fixture
def link() -> Iterator[FaultyLink]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with FaultyLink(server.server_address[1]) as made:
            yield made
        server.shutdown()


def connected(link: FaultyLink, seconds: float = 20) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", link.port))
    client.settimeout(seconds)
    return client


def ask(client: socket.socket, line: bytes = b"hello\n") -> bytes:
    client.sendall(line)
    answer = b""
    while len(answer) < len(line):
        part = client.recv(65536)
        if not part:
            break
        answer += part
    return answer


def test_what_is_sent_arrives(link: FaultyLink) -> None:
    with connected(link) as one, connected(link) as other:
        assert ask(one) == b"hello\n"
        long = b"x" * 300_000 + b"\n"
        assert ask(other, long) == long
    assert link.passed == 2 * (6 + 300_001)


def is_dead(client: socket.socket) -> bool:
    """Return whether the other side has ended the connection, which it may do in two ways."""
    try:
        return ask(client) == b""
    except ConnectionError:
        return True


def test_a_cut_resets_connections_and_refuses_new_ones_until_it_heals(link: FaultyLink) -> None:
    with connected(link) as one:
        assert ask(one) == b"hello\n"
        link.fail("cut")
        assert is_dead(one)
    with connected(link) as other:
        assert is_dead(other)
    assert link.refused >= 2
    link.heal()
    with connected(link) as again:
        assert ask(again) == b"hello\n"


def test_a_half_open_connection_says_nothing_and_does_not_come_back(link: FaultyLink) -> None:
    with connected(link, 0.5) as one:
        assert ask(one) == b"hello\n"
        link.fail("half-open")
        with connected(link, 0.5) as new:
            for client in (one, new):
                with pytest.raises(TimeoutError):
                    ask(client)
                client.settimeout(20)
            link.heal()
            assert is_dead(one)
            assert is_dead(new)
    with connected(link) as again:
        assert ask(again) == b"hello\n"


@pytest.mark.parametrize(("fault", "amount"), [("delay", 0.2), ("throttle", 30)])
def test_what_is_slow_takes_its_time_and_arrives(
    link: FaultyLink, fault: str, amount: float
) -> None:
    with connected(link) as one:
        link.fail(fault, amount)  # type: ignore[arg-type]  # as parametrized
        began = time.monotonic()
        assert ask(one) == b"hello\n"
        # There and back again.
        assert time.monotonic() - began >= 0.39
