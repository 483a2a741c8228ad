"""What a stranger at one of laggardd's ports can do: raw connections, ZMTP by hand, messages by hand."""

import contextlib
import resource
import select
import socket
import struct

SECONDS = 30  # in which a peer that lives has answered, on a slow machine


def address_of(url):
    """("127.0.0.1", 1234) of tcp://127.0.0.1:1234 or http://127.0.0.1:1234."""
    host, port = url.rsplit("/", 1)[-1].rsplit(":", 1)
    return host, int(port)


def connect(url):
    return socket.create_connection(address_of(url), timeout=SECONDS)


def is_closed(connection):
    """Reads until the other side ends the connection; False when it does not within SECONDS."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass  # a reset
    return True


def send_quietly(connection, data):
    """Sends what the other side takes before it hangs up."""
    with contextlib.suppress(OSError):
        connection.sendall(data)


def raise_file_limit(wanted):
    """Lets this process open so many files; returns how many it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


class Crowd:
    """Many connections that say nothing."""

    def __init__(self, url, count):
        """Connects as many as the other side takes; a backlog that stays full ends it early."""
        self.connections = []
        for _ in range(count):
            connection = socket.socket()
            connection.settimeout(SECONDS)
            try:
                connection.connect(address_of(url))
            except OSError:
                connection.close()
                break
            self.connections.append(connection)

    def ended(self):
        """How many of them the other side has ended, whatever it said before."""
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLRDHUP)
        return len(poll.poll(0))

    def leave(self):
        while self.connections:
            self.connections.pop().close()


# ---- ZMTP 3.0 (rfc.zeromq.org/spec/23), NULL mechanism ----

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def frame(body, more=False, command=False):
    flags = (1 if more else 0) | (4 if command else 0)
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body


def _property(name, value):
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


READY = frame(b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", b""), command=True)


class Dealer:
    """A ZeroMQ DEALER without ZeroMQ: it can send what that would not."""

    def __init__(self, url):
        self.connection = connect(url)
        self.connection.sendall(GREETING + READY)
        self._read(len(GREETING))
        self.receive()  # its READY

    def close(self):
        self.connection.close()

    def send(self, *frames):
        """One message of these frames."""
        parts = [frame(body, more=i + 1 < len(frames)) for i, body in enumerate(frames)]
        send_quietly(self.connection, b"".join(parts))

    def receive(self):
        """The body of the next frame that is no PING."""
        while True:
            flags = self._read(1)[0]
            size = struct.unpack(">Q", self._read(8))[0] if flags & 2 else self._read(1)[0]
            body = self._read(size)
            if not (flags & 4 and body.startswith(b"\x04PING")):
                return body
            send_quietly(self.connection, frame(b"\x04PONG", command=True))

    def _read(self, size):
        data = b""
        while len(data) < size:
            more = self.connection.recv(size - len(data))
            if not more:
                raise ConnectionError("the collector has hung up")
            data += more
        return data


# ---- messages of proto/wire.proto, by field number ----


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """A field of a message: an integer, or bytes, or a text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def hello(version, run="stranger", rank=0, source="stranger-0", origin="/log", more=b"", channel=0):
    who = field(1, source) + field(2, "host") + field(5, origin)
    body = field(1, version) + field(2, run) + field(3, rank) + field(4, who) + more
    return field(1, channel) + field(2, body)


def batch(first_seq, items, attempt=1, channel=0):
    return field(1, channel) + field(5, field(1, first_seq) + items + field(7, attempt))
