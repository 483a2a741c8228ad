"""Arguments that make no sense: each is said once, raises nothing, and the job goes on."""

import argparse
import json
import math
import os
import unittest
from pathlib import Path
from unittest import mock

from fake_library import FakeLibrary, Measuring, measure_into

import laggard
from laggard import _say


class OnGpu:
    """A tensor there: whoever reads it waits."""

    is_cuda = True
    reads = 0

    def read(self, *_):
        OnGpu.reads += 1
        raise RuntimeError("the job waits for its GPU")

    __index__ = __float__ = __str__ = __repr__ = tolist = item = read


class Odd:
    """Whatever it is asked for, it raises."""

    def fail(self, *_):
        raise RuntimeError("odd")

    __index__ = __float__ = __str__ = __repr__ = __hash__ = __iter__ = __eq__ = fail


class Number:
    """As NumPy and PyTorch have them."""

    def __index__(self):
        return 7


class Arguments(Measuring):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual(OnGpu.reads, 0))

    def calls_of(self, *calls):
        """What they ask of the library, twice; each of them is said once."""
        self.library.calls.clear()
        before = len(_say._said)
        for call in calls * 2:
            call()
        self.assertEqual(len(_say._said) - before, len(calls), _say._said)
        asked = self.library.calls
        self.assertEqual(asked[: len(asked) // 2] * 2, asked)
        return asked[: len(asked) // 2]

    def test_numbers_as_the_environment_has_them(self):
        self.begin(rank="3", world_size="4", attempt="2", queue_records="512", spool_mb="", run=7)
        options = self.library.options
        self.assertEqual((options.rank, options.world_size, options.attempt), (3, 4, 2))
        self.assertEqual((options.queue_records, options.spool_mb, options.run), (512, 0, b"7"))

    def test_no_rank_as_the_environment_has_it(self):
        for rank in ("", -1, "-1", None):
            library = measure_into(self)
            self.begin(rank=rank)
            self.assertEqual(library.options.rank, -1)
            laggard.end()

    def test_a_place_that_cannot_be(self):
        """To measure as another rank than this would spoil the others' records."""
        for options in (
            {"rank": "zero"},
            {"rank": 1.5},
            {"rank": 2**32},
            {"rank": -2},
            {"world_size": [4]},
            {"attempt": 2**32 + 1},
            {"queue_records": -1},
            {"spool_mb": 2**40},
            {"run": "a\0b"},
            {"run": Odd()},
        ):
            with self.subTest(options=list(options)):
                measure_into(self)
                with self.assertLogs("laggard") as logs:
                    self.assertFalse(laggard.init(**options))
                self.assertIn("nothing is measured", logs.output[0])

    def test_settings(self):
        given = argparse.Namespace(
            rate=0.1, limit=math.inf, least=-math.inf, loss=math.nan, path=Path("/data"), sizes=(1, [2.5, math.inf]),
            seed=2**70, flag=True, none=None, name="half \udcff", kind=Arguments, by={(1, 2): "pair", 3: math.nan},
        )  # fmt: skip
        seen = [{"global_batch": 8}, given, [("a", 1)]]
        for config in seen:
            library = measure_into(self)
            self.begin(config=config, topology={"pp": 1} if config is given else None)
            seen[seen.index(config)] = json.loads(library.options.config, parse_constant=self.fail)
            laggard.end()
        self.assertEqual(seen[::2], [{"global_batch": 8}, {"a": 1}])
        self.assertEqual(
            seen[1],
            {
                "rate": 0.1, "limit": "Infinity", "least": "-Infinity", "loss": "NaN", "path": "/data",
                "sizes": [1, [2.5, "Infinity"]], "seed": str(2**70), "flag": True, "none": None, "name": "half ?",
                "kind": str(Arguments), "by": {"(1, 2)": "pair", "3": "NaN"}, "topology": {"pp": 1},
            },
        )  # fmt: skip
        self.assertEqual(_say._said, set())

    def test_settings_that_are_none(self):
        circle = {}
        circle["itself"] = circle
        for config in ("text", 7, {1, 2}, circle, {"odd": Odd()}):
            library = measure_into(self)
            with self.assertLogs("laggard"):
                self.begin(config=config)
            self.assertIsNone(library.options.config)
            laggard.end()

    def test_settings_later(self):
        self.begin()
        laggard.config(path=os, loss=math.inf)
        self.assertEqual(self.library.calls, [f"config {json.dumps({'path': str(os), 'loss': 'Infinity'})}"])
        circle = {}
        circle["itself"] = circle
        self.assertEqual(self.calls_of(lambda: laggard.config(**circle)), ["config None"])

    def step(self, number):
        with laggard.step(number):
            pass

    def test_the_number_of_a_step(self):
        self.begin()
        for number in (4.0, "4", -3, 2**63, 2**64 + 7, OnGpu(), Odd(), [1]):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: self.step(number)), ["step -1", "step end"])
            laggard.begin_step(number)
            self.assertEqual(self.library.calls[-1], "step -1")
        laggard.step(Number()).__enter__()
        self.assertEqual(self.library.calls[-1], "step 7")

    def test_counts(self):
        self.begin()
        laggard.count("n", 2**63 - 1)
        laggard.count("n", Number())
        self.assertEqual(self.library.calls, [f"count n {2**63 - 1}", "count n 7"])
        for amount in (4.0, "4", 2**63, 2**70 + 5, -(2**63) - 1, OnGpu(), Odd(), None):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.count("n", amount)), [])
        for name in (["n"], "n\0m", Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.count(name, 1)), [])
        with self.assertLogs("laggard"), laggard.step(samples="four"):
            pass

    def test_values(self):
        self.begin()
        laggard.value("loss", 0.5)
        laggard.value("loss", 3)
        self.assertEqual(self.library.calls, ["value loss 0.5", "value loss 3"])
        self.assertEqual(self.calls_of(lambda: laggard.value("loss", OnGpu())), [])
        for name in (["n"], "n\0m", Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.value(name, 1.0)), [])

        def refuse(*_):
            raise TypeError("as ctypes does")

        with mock.patch.object(self.library, "value", refuse):
            laggard.end()
            self.begin()
            self.assertEqual(self.calls_of(lambda: laggard.value("loss", None)), [])

    def test_sample_ids(self):
        self.begin()
        for ids in (["a"], [2**63], None, b"abc", b"12345678", bytearray(8), 7, OnGpu(), Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.sample_ids(ids)), [])

    def test_stages(self):
        self.begin()

        def enter(*arguments, **named):
            with laggard.stage(*arguments, **named):
                pass

        forward = ["begin forward", "end forward"]
        for kind in ("odd", ["sync"], 3, Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: enter("forward", kind=kind)), forward)
        for name in (["forward"], "forward\0of the model", Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: enter(name)), [])
        self.assertEqual(self.library.stages, [("forward", 0)])
        laggard.stage(["forward"]).drop()
        self.assertEqual(self.library.calls, [])

    def test_a_stage_that_has_no_name_keeps_nobody_from_the_beginning(self):
        laggard.stage("forward\0of the model")
        laggard.stage("forward")
        with self.assertLogs("laggard"):
            self.begin()
        with laggard.stage("forward"):
            pass
        self.assertEqual(self.library.calls, ["begin forward", "end forward"])

    def test_tags(self):
        self.begin()
        laggard.tag(7)
        self.assertEqual(self.library.calls, ["tag 7"])
        for name in ("eval\0", Odd(), None):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.tag(name)), [])

    def test_how_long_to_wait(self):
        self.begin()
        for timeout_s, ms in ((math.inf, 2**32 - 1), (1e12, 2**32 - 1), (-1, 0), (0.5, 500), (3, 3000), (math.nan, 0)):
            self.library.calls.clear()
            laggard.flush(timeout_s)
            self.assertEqual(self.library.calls, [f"flush {ms}"])
        self.assertEqual(_say._said, set())
        for timeout_s in (None, "long", [1], Odd()):
            _say._said.clear()
            self.assertEqual(self.calls_of(lambda: laggard.flush(timeout_s)), ["flush 2000"])

    def test_an_end_is_one_whatever_it_is_told(self):
        self.begin()
        forward = laggard.stage("forward")
        with self.assertLogs("laggard"):
            self.assertTrue(laggard.end(None))
        self.assertEqual((self.library.calls, forward.id), (["end 2000"], -1))

    def test_an_end_that_is_interrupted(self):
        self.begin()
        with mock.patch.object(self.library, "end", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, laggard.end)
        self.assertFalse(laggard.flush())
        with laggard.stage("forward"):
            pass
        self.assertEqual(self.library.calls, [])

    def test_sentences_without_end(self):
        self.begin()
        with self.assertLogs("laggard") as logs:
            for number in range(1000):
                laggard.count(f"count {number}", None)
        self.assertEqual(len(logs.records), 100)

    def test_without_the_library_nothing_is_said(self):
        measure_into(self, FakeLibrary(status=2))
        self.assertFalse(laggard.init())
        laggard.count("n", None)
        laggard.value("loss", OnGpu())
        laggard.sample_ids(b"abc")
        laggard.config(odd=Odd())
        self.assertEqual(_say._said, set())


if __name__ == "__main__":
    unittest.main()
