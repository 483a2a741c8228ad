"""The agents' protocol spoken by hand, for tests: proto/wire.proto compiled here and now, and one DEALER socket."""

import importlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq

PROTO = Path(__file__).resolve().parent.parent.parent / "proto"
PROTOCOL_VERSION = 1


def compiled(proto_dir=PROTO, name="wire"):
    """The Python module of a .proto file."""
    with tempfile.TemporaryDirectory(prefix="laggard-proto-") as out:
        subprocess.run(["protoc", f"-I{proto_dir}", f"--python_out={out}", f"{name}.proto"], check=True, timeout=60)
        sys.path.insert(0, out)
        try:
            return importlib.import_module(f"{name}_pb2")
        finally:
            sys.path.remove(out)


pb = compiled()


class Peer:
    """One connection to a collector, with as many channels as a test likes. Nothing is sent that was not asked for."""

    def __init__(self, ingest, receive_queue=1000, receive_buffer=-1):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.rcvhwm = receive_queue
        self._socket.rcvbuf = receive_buffer
        self._socket.connect(ingest)

    def close(self):
        self._context.destroy(linger=0)

    def send(self, channel=1, **body):
        self.send_bytes(pb.Envelope(channel=channel, **body).SerializeToString())

    def send_bytes(self, data):
        self._socket.send(data)

    def receive(self, timeout_s=20.0):
        """The next message; None when there is none in time."""
        if not self._socket.poll(int(timeout_s * 1000)):
            return None
        return pb.Envelope.FromString(self._socket.recv())

    def wait_for(self, body, channel=1, timeout_s=20.0):
        """The next message of that kind on the channel; others before it are passed over."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and message.channel == channel and message.WhichOneof("body") == body:
                return getattr(message, body)
        raise TimeoutError(f"no {body} on channel {channel} within {timeout_s:g} s")

    def greet(self, channel=1, **hello):
        """Says Hello and returns the Welcome, or the Reject."""
        self.send(channel, hello=hello_of(**hello))
        end = time.monotonic() + 20
        while time.monotonic() < end:
            message = self.receive(1)
            body = message.WhichOneof("body") if message is not None and message.channel == channel else None
            if body in ("welcome", "reject"):
                return getattr(message, body)
        raise TimeoutError("no answer to a Hello within 20 s")

    def deliver(self, batch, channel=1):
        """Sends a batch and waits until all of it is acknowledged; returns that Ack."""
        self.send(channel, batch=batch)
        last = batch.first_seq + max(len(batch.records.steps), 1) - 1
        while True:
            ack = self.wait_for("ack", channel)
            if ack.committed_seq >= last:
                return ack


def hello_of(run="job", rank=0, source="source-1", origin="/log/rank0.jsonl", version=PROTOCOL_VERSION, **more):
    identity = pb.Source(id=source, host="node1", pid=1, started_unix_ms=1, origin=origin)
    return pb.Hello(protocol_version=version, run=run, rank=rank, source=identity, **more)


FORWARD = pb.Layout(stream=["forward"])


def config_batch(seq, world_size=1, attempt=1, **more):
    settings = f'{{"rank":0,"type":"config","world_size":{world_size}}}'
    config = pb.Config(attempt=attempt, world_size=world_size, settings=settings)
    return pb.Batch(first_seq=seq, attempt=attempt, config=config, **more)


def records_batch(seq, steps, rank=0, attempt=1, layouts=(FORWARD,), wall=10.0, **more):
    """Records with a wall time and one stage; the wall says the step, so that each differs from the others."""
    records = pb.PackedRecords(steps=steps, ranks=[rank] * len(steps), layouts=[0] * len(steps))
    for step in steps:
        records.doubles.extend([wall + step, 5.0])
    records.sample_counts.extend([0] * len(steps))
    return pb.Batch(first_seq=seq, attempt=attempt, records=records, layouts=layouts, **more)
