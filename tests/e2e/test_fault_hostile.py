"""Strangers at both ports: garbage, half requests, crowds, no descriptors left. Beside each of them an agent
delivers a run, which ends complete and exact."""

import os
import random
import re
import threading
import time
import unittest

import hostile
from harness import TESTS, EndToEnd, spawn, wait_until
from hostile import Crowd, Dealer, batch, connect, field, hello, is_closed, send_quietly
from processes import cpu_s
from prometheus_text import parse
from stress import Job, check_export, wait_stored

RANKS = 4
VERSION = int(
    re.search(r"kProtocolVersion = (\d+)", (TESTS.parent / "proto" / "version.h").read_text()).group(1)
)
CROWD = 5000
HTTP_PLACES = 256
MOST_CPU = 0.5 if os.environ.get("LAGGARD_SANITIZE") else 0.2  # of a processor; what spins takes all of it
MIB = 1 << 20


class Training:
    """A job of four ranks that takes a step every 50 ms, and its agent."""

    def __init__(self, test, collector, run="job"):
        self.test, self.collector, self.run = test, collector, run
        self.job = Job(random.Random(22), test.home, RANKS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._train)
        self._thread.start()
        test.addCleanup(self._stop)
        test.start_agent(collector, run, *self.job.files)

    def _train(self):
        while not self._stopping.wait(0.05):
            self.job.write(1)

    def _stop(self):
        self._stopping.set()
        self._thread.join()

    def finish(self):
        """Ends the job and checks that every record is there once, as it was written."""
        self._stop()
        self.job.end()
        self.test.wait_for_run(
            self.collector,
            self.run,
            lambda s: s["state"] == "ended" and s["steps_by_state"]["complete"] == self.job.steps,
            "the well-behaved job, complete",
            deadline_s=120,
        )
        wait_stored(self.collector, self.run, RANKS * (self.job.steps + 2), 60)
        check_export(self.test, self.collector, self.run, self.job)


class Hostile(EndToEnd):
    collector = None

    def start(self, files=None):
        """A collector, which may open so many files, and a job that delivers to it."""
        launch = spawn
        if files is not None:

            def launch(command, **options):
                return spawn(["prlimit", f"--nofile={files}:{files}", *command], **options)

        self.collector = self.start_collector(launch=launch)
        self.training = Training(self, self.collector)
        self.wait_updates(self.collector, "job", RANKS)

    def counted(self, name, **labels):
        return parse(self.collector.text("/metrics")).get((name, frozenset(labels.items())), 0)

    def event(self, name):
        """A counter of the agents' port."""
        return self.counted("laggard_ingest_events_total", event=name)

    def wait_counted(self, what, condition):
        wait_until(what, condition, deadline_s=90)

    def tearDown(self):
        if self.collector is not None:
            self.assertIsNone(self.collector.process.poll(), self.collector.log.read_text())

    def assert_no_spin(self, seconds=3.0):
        """It does next to nothing while nothing happens but the job's four records every 50 ms."""
        pid = self.collector.process.pid
        failed, cpu, begin = self.event("connections_unaccepted"), cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_s(pid) - cpu) / (time.monotonic() - begin)
        # A spinning accept() fails a thousand times a second even on a machine that has little time for it.
        self.assertLess(self.event("connections_unaccepted") - failed, 200)
        self.assertLess(share, MOST_CPU)

    # ---- bytes ----

    def test_garbage(self):
        self.start()
        dice = random.Random(20)
        garbage = [dice.randbytes(size) for size in (1, 9, 10, 64, 65, 1000, 100_000)]
        garbage += [hostile.GREETING[:-1], hostile.GREETING + dice.randbytes(5000), hostile.GREETING + hostile.READY[:7]]
        garbage += [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(500)]  # as TLS begins
        garbage += [b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\r\n\r\n\r\n", b"GET " + b"/" * 20_000]
        refused, broken = self.event("handshakes_refused"), self.counted("laggard_http_requests_broken_total")
        for data in garbage:
            for url in (self.collector.ingest, self.collector.http):
                with connect(url) as connection:
                    send_quietly(connection, data)
        self.wait_counted("garbage counted by the agents' port", lambda: self.event("handshakes_refused") > refused)
        self.assertGreater(self.counted("laggard_http_requests_broken_total"), broken)
        self.wait_counted("strangers gone", lambda: self.event("connections") == 1)
        self.training.finish()

    def test_frames_that_lie(self):
        self.start()
        lies = [
            b"\x02" + b"\xff" * 8,  # longer than any file
            b"\x02" + bytes(4) + b"\x7f\xff\xff\xff",  # 2 GiB to come
            b"\x04\x00",  # a command without a name
            b"\x04\x05\x04PIN",  # torn
            b"\xff\xff\xff",
        ]
        for data in lies:
            dealer = Dealer(self.collector.ingest)
            send_quietly(dealer.connection, data)
            dealer.connection.shutdown(1)
            self.assertTrue(is_closed(dealer.connection))
            dealer.close()
        self.wait_counted("strangers gone", lambda: self.event("connections") == 1)
        self.training.finish()

    # ---- messages ----

    def test_messages(self):
        self.start()
        dice = random.Random(21)
        dealer = Dealer(self.collector.ingest)
        sound = hello(VERSION, rank=3)
        malformed = self.event("messages_malformed")
        for _ in range(300):
            dealer.send(dice.randbytes(dice.randrange(1, 2000)))
            dealer.send(sound[: dice.randrange(1, len(sound))])
        dealer.send(b"")
        dealer.send(b"one", b"two", b"three")
        dealer.send(*[b"x" * 1000] * 2000)
        self.wait_counted("them as malformed", lambda: self.event("messages_malformed") > malformed + 100)
        self.assertEqual(self.event("messages_too_large"), 0)
        dealer.send(dice.randbytes(5 * MIB))
        self.wait_counted("the large one", lambda: self.event("messages_too_large") == 1)
        dealer.send(hello(VERSION, source="still there"))
        self.wait_counted("a Hello over the same connection", lambda: self.event("sessions") == RANKS + 1)
        dealer.send(bytes(9 * MIB))
        self.assertTrue(is_closed(dealer.connection), "a message that ZeroMQ does not read ends the connection")
        dealer.close()
        self.training.finish()

    def test_absurd_hellos_and_batches(self):
        self.start()
        dealer = Dealer(self.collector.ingest)
        shape = field(7, field(1, "stage"))
        absurd = [
            hello(VERSION + 1),
            hello(VERSION, rank=2**32 - 1),
            hello(VERSION, run="r" * 201),
            hello(VERSION, run="a\nb"),
            hello(VERSION, run="job@7"),
            hello(VERSION, source=""),
            hello(VERSION, origin="/" * 5000),
            hello(VERSION, more=shape * 1025),
            hello(VERSION, more=field(7, field(1, "s" * 513))),
            hello(VERSION, more=field(7, field(1, "s") * 4097)),
            hello(VERSION, more=field(8, field(1, "s")) * 4097),
            hello(VERSION, more=field(8, field(1, "s" * (3 * MIB)))),
        ]
        for message in absurd:
            dealer.send(message)
            dealer.receive()  # why not
        self.wait_counted("refused Hellos", lambda: self.event("hellos_refused") == len(absurd))
        dealer.send(hello(VERSION))
        dealer.receive()
        self.assertEqual(self.event("hellos_refused"), len(absurd), "the sound one is welcome")
        malformed = self.event("messages_malformed")
        config = field(5, field(2, 4) + field(3, "{}"))
        wrong = [
            batch(0, config),
            batch(1 << 60, config),
            batch(1, config, attempt=0),
            batch(1, config, attempt=2**32 - 1),
            batch(1, field(5, field(2, 2**31) + field(3, "{}"))),
            batch(1, field(5, field(3, "x" * (65 * 1024)))),
            batch(1, field(4, b"")),
            batch(1, b""),
        ]
        for message in wrong:
            dealer.send(message)
        self.wait_counted("malformed", lambda: self.event("messages_malformed") == malformed + len(wrong))
        dealer.close()
        self.training.finish()

    # ---- HTTP, half ----

    def test_requests_that_do_not_end(self):
        self.start()
        broken = self.counted("laggard_http_requests_broken_total")
        post = b"POST /api/v1/report HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        never_finished = [b"", b"GET /api/v1/st", post, post + b"Content-Length: 100\r\n\r\n{", post + b"X: "]
        waiting = []
        for data in never_finished:
            waiting.append(connect(self.collector.http))
            send_quietly(waiting[-1], data)
        for data, status in [
            (b"GET / HTTP/1.1\r\n" + b"X-Long: 1234567890\r\n" * 2000, b" 431 "),
            (post + b"Content-Length: 99999999\r\n\r\n", b" 413 "),
            (post + b"Content-Length: -1\r\n\r\n", b" 400 "),
            (post + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", b" 400 "),
        ]:
            with connect(self.collector.http) as connection:
                send_quietly(connection, data)
                self.assertIn(status, connection.recv(200).split(b"\r\n")[0])
        with connect(self.collector.http) as connection:  # a body longer than said is the next request, and none
            send_quietly(connection, post + b"Content-Length: 2\r\n\r\n{}}}}}}\r\n\r\n")
            self.assertTrue(is_closed(connection))
        for connection in waiting:
            self.assertTrue(is_closed(connection), "a request that does not end is given up")
            connection.close()
        # Five that had an answer, and of those without an end all but the one that never began.
        self.wait_counted(
            "broken requests", lambda: self.counted("laggard_http_requests_broken_total") >= broken + 5 + 4
        )
        self.training.finish()

    # ---- crowds ----

    def may_open(self, count):
        allowed = hostile.raise_file_limit(count + 500)
        self.need(allowed >= count + 100, f"{count + 100} files for this process, which may open {allowed}: ulimit -Hn")

    def test_a_crowd_that_says_nothing_to_the_agents_port(self):
        self.may_open(CROWD)
        self.start()
        refused = self.event("handshakes_refused")
        crowd = Crowd(self.collector.ingest, CROWD)
        self.addCleanup(crowd.leave)
        self.assertEqual(len(crowd.connections), CROWD)
        self.wait_counted("them all given up", lambda: self.event("handshakes_refused") >= refused + CROWD)
        self.assertEqual(self.event("connections_unaccepted"), 0)
        self.wait_counted("them all gone", lambda: self.event("connections") == 1)
        self.assert_no_spin()
        self.training.finish()

    def test_a_crowd_that_says_nothing_to_the_http_port(self):
        self.may_open(CROWD)
        self.start()
        crowd = Crowd(self.collector.http, CROWD)
        self.addCleanup(crowd.leave)
        self.assertGreater(len(crowd.connections), 2 * HTTP_PLACES)
        # Places whose time is up go to others of the crowd, which are not refused.
        least = len(crowd.connections) // 2
        self.assertGreaterEqual(self.refused_of(crowd, HTTP_PLACES), least)
        self.assert_no_spin()
        self.training.finish()

    def refused_of(self, crowd, places):
        """Waits until all of a crowd but those with a place were sent away, lets it leave, and says who was refused."""
        without = len(crowd.connections) - places
        wait_until("an end of all without a place", lambda: crowd.ended() >= without, 90)
        crowd.leave()
        return wait_until("an answer afterwards", self.refused_or_none, 90)

    def refused_or_none(self):
        try:
            return self.counted("laggard_http_connections_refused_total")
        except OSError:
            return None  # its place is still taken

    # ---- no descriptors left ----

    def more_connections_than_descriptors(self, files):
        self.start(files)
        crowd = Crowd(self.collector.ingest, 2 * files)
        self.addCleanup(crowd.leave)
        self.wait_counted("too many are refused", lambda: self.event("connections_refused") > files // 2)
        self.assert_no_spin()
        self.assertLess(self.event("connections"), files)
        self.training.finish()
        crowd.leave()
        self.wait_counted("them all gone", lambda: self.event("connections") <= 1)
        self.run_agent(self.collector, "after", *self.training.job.files)

    def test_more_connections_than_64_descriptors(self):
        self.more_connections_than_descriptors(64)

    def test_more_connections_than_256_descriptors(self):
        self.more_connections_than_descriptors(256)

    def test_more_http_connections_than_descriptors(self):
        self.start(128)
        crowd = Crowd(self.collector.http, 300)
        self.addCleanup(crowd.leave)
        self.assertGreaterEqual(self.refused_of(crowd, 128), 100)
        self.assertEqual(self.counted("laggard_http_connections_unaccepted_total"), 0)
        self.assert_no_spin()
        self.training.finish()

    def test_too_few_descriptors_are_an_error_that_says_so(self):
        with self.assertRaises(RuntimeError) as raised:
            self.start(63)
        self.assertIn("raise the hard limit", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
