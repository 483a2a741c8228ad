"""A TCP proxy that treats connections as bad networks do, and addresses where no collector answers."""

import select
import socket
import struct
import threading
import time

RST = struct.pack("ii", 1, 0)  # SO_LINGER 1, 0 s: close() resets the connection


class Proxy:
    """Forwards connections on a port of its own to `target`, as long as it is not told otherwise.

    `mode` may be changed at any time: "forward", "delay" (each piece comes 50 to 200 ms late), "trickle" (a few bytes
    at a time) or "stall" (nothing is read any more, and no connection closed).
    """

    def __init__(self, target, rng):
        self.target, self.rng, self.mode = target, rng, "forward"
        self.accepted = 0
        self._closed = False
        self._lock = threading.Lock()
        self._pairs = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.ingest = f"tcp://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, reset):
        """Ends every connection: with a reset, or in order."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
                else:
                    _shutdown(end)
                end.close()
        return len(pairs)

    def close(self):
        self._closed = True
        _shutdown(self._listener)
        self._listener.close()
        self.cut(reset=True)

    def _accept(self):
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                far = socket.create_connection(self.target, timeout=5)
            except OSError:
                near.close()
                continue
            pair = (near, far)
            with self._lock:
                self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, sink, pair), daemon=True).start()

    def _pump(self, source, sink, pair):
        try:
            while self._forward(source, sink):
                pass
        except (OSError, ValueError):  # cut, perhaps in between
            pass
        with self._lock:
            mine = pair in self._pairs
            self._pairs.discard(pair)
        if mine:
            for end in pair:
                _shutdown(end)
                end.close()

    def _forward(self, source, sink):
        if self.mode == "stall":
            time.sleep(0.05)
            return source.fileno() >= 0
        if not select.select([source], [], [], 0.1)[0]:
            return True
        data = source.recv(self.rng.randrange(1, 8) if self.mode == "trickle" else 65536)
        if not data:
            return False
        if self.mode == "delay":
            time.sleep(self.rng.uniform(0.05, 0.2))
        sink.settimeout(None)
        sink.sendall(data)
        return True


def _shutdown(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class DeafPort:
    """An address where nobody answers: its queue of new connections is full, so the kernel drops what comes."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.address = self._listener.getsockname()
        self.ingest = f"tcp://127.0.0.1:{self.address[1]}"
        self._fill = []
        while self._connects():
            pass

    def _connects(self):
        filler = socket.socket()
        filler.settimeout(0.5)
        self._fill.append(filler)
        try:
            filler.connect(self.address)
        except TimeoutError:
            return False
        return True

    def close(self):
        for end in [self._listener, *self._fill]:
            end.close()


class ClosedPort:
    """An address where nobody listens, and where nobody but a collector of this test's ever will.

    The socket that holds the port does not listen, so the kernel refuses connections; and as it allows its address to
    be used again, a collector can still have it.
    """

    def __init__(self):
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", 0))
        self.ingest = f"tcp://127.0.0.1:{self._holder.getsockname()[1]}"

    def close(self):
        self._holder.close()


class SilentPort:
    """An address where the kernel accepts connections, and nobody reads what comes."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.ingest = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self):
        self._listener.close()


class Nowhere:
    """A name that no resolver knows."""

    ingest = "tcp://collector.invalid:17600"

    def close(self):
        pass


def without_collector(test):
    """Addresses where no collector answers (case A16), by a word on each; gone when the test is over."""
    places = {
        "nobody listens": ClosedPort(),
        "packets vanish": DeafPort(),
        "never reads": SilentPort(),
        "no such name": Nowhere(),
    }
    for place in places.values():
        test.addCleanup(place.close)
    return places
