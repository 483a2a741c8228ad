"""What the functions of the package ask of the library."""

import os
import sys
import threading
import types
import unittest
from unittest import mock

from fake_library import FakeLibrary, Measuring, measure_into

import laggard
from laggard import _say


class Measure(Measuring):
    def test_a_step(self):
        self.begin()
        with laggard.step(samples=4):
            with laggard.stage("forward"):
                with laggard.stage("attention", kind="work"):
                    pass
            with laggard.stage("backward", kind="sync"):
                laggard.value("loss", 0.5)
            laggard.tag("checkpoint")
            laggard.count("tokens", 100)
        with laggard.step(17):
            pass
        self.assertEqual(
            self.library.calls,
            ["step -1", "count samples 4", "begin forward", "begin attention", "end attention", "end forward"]
            + ["begin backward", "value loss 0.5", "end backward", "tag checkpoint", "count tokens 100", "step end"]
            + ["step 17", "step end"],
        )
        self.assertEqual(self.library.stages, [("forward", 0), ("attention", 1), ("backward", 3)])

    def test_an_exception_ends_what_is_open_and_goes_on(self):
        self.begin()
        with self.assertRaises(KeyError), laggard.step(), laggard.stage("forward"):
            raise KeyError
        self.assertEqual(self.library.calls, ["step -1", "begin forward", "end forward", "tag exception", "step end"])

    def test_a_decorator_from_before_the_beginning(self):
        @laggard.stage("forward")
        def forward(x, scale=1):
            """Computes."""
            return x * scale

        self.assertEqual(forward(2, scale=3), 6)
        self.assertEqual(self.library.calls, [])
        self.begin()
        self.assertEqual(forward(2), 2)
        self.assertEqual(self.library.calls, ["begin forward", "end forward"])
        self.assertEqual((forward.__name__, forward.__doc__), ("forward", "Computes."))

    def test_a_decorator_above_what_a_call_only_begins(self):
        async def coroutine():
            pass

        def generator():
            yield

        async def both():
            yield

        with self.assertLogs("laggard") as logs:
            for function in (coroutine, generator, both):
                for _ in range(2):
                    self.assertIs(laggard.stage("fetch")(function), function)
        self.assertEqual(len(logs.records), 1)

    def test_a_kind_that_is_said_later(self):
        laggard.stage("forward")
        laggard.stage("forward", kind="work")
        self.begin()
        for kind in (None, "sync", None, "input"):
            with laggard.stage("backward", kind=kind):
                pass
        self.assertEqual(self.library.stages, [("forward", 1), ("backward", 0), ("backward", 3)])
        self.assertEqual(self.library.calls, ["begin backward", "end backward"] * 4)

    def test_a_step_inside_another(self):
        """The library ends the outer one and counts the end that finds nothing to end."""
        self.begin()
        for _ in range(2):
            with laggard.step():
                pass
            laggard.begin_step()
            laggard.begin_step()
            laggard.end_step()
        self.assertEqual(self.said(), [])
        for _ in range(2):
            with laggard.step(), laggard.step():
                pass
        self.assertEqual(len(self.said()), 1)
        self.assertIn("a step that is begun inside another ends that one", self.said()[0])

    def test_a_block_inside_a_step_that_a_callback_has_begun(self):
        self.begin()
        laggard.begin_step()
        with laggard.step():
            pass
        laggard.end_step()
        self.assertEqual(len(self.said()), 1)

    def test_a_block_of_another_thread_ends_nothing(self):
        self.begin()
        with laggard.step():
            self.library.step_end = self.library.step_begin = lambda *_: None
            thread = threading.Thread(target=lambda: laggard.step().__enter__())
            thread.start()
            thread.join()
        self.assertEqual(self.said(), [])

    def said(self):
        return list(_say._said)

    def test_a_loader(self):
        self.begin()
        wrapped = laggard.wrap_loader(_Loader([1, 2]))
        self.assertEqual((len(wrapped), wrapped.sampler), (2, "its sampler"))
        for _ in range(2):
            self.assertEqual(list(wrapped), [1, 2])
        epoch = ["begin load", "end load"] * 3 + ["begin load", "drop load"]
        self.assertEqual(self.library.calls, epoch * 2)
        self.assertEqual(self.library.stages, [("load", 2)])

    def test_a_loader_that_fails(self):
        self.begin()

        def broken():
            yield 1
            raise OSError("no such file")

        batches = iter(laggard.wrap_loader(broken(), name="fetch"))
        self.assertEqual(next(batches), 1)
        with self.assertRaises(OSError):
            next(batches)
        self.assertEqual(self.library.calls[-1], "drop fetch")

    def test_sample_ids(self):
        self.begin()
        for ids in ([1, 2], (3,), range(2), _Tensor([4, 5]), []):
            laggard.sample_ids(ids)
        self.assertEqual(self.library.calls, [f"samples {ids}" for ids in ([1, 2], [3], [0, 1], [4, 5], [])])

    def test_what_the_library_is_told(self):
        self.begin(run="job", rank=3, world_size=4, attempt=2, config={"global_batch": 8}, topology={"pp": 1})
        options = self.library.options
        self.assertEqual((options.run, options.rank, options.world_size, options.attempt), (b"job", 3, 4, 2))
        self.assertEqual(options.config, b'{"global_batch": 8, "topology": {"pp": 1}}')
        self.assertTrue(options.otherwise_run)
        self.assertEqual(laggard.init(), True, "a second time changes nothing")

    def test_without_anything_all_is_left_to_the_library(self):
        self.begin()
        options = self.library.options
        self.assertEqual((options.run, options.rank, options.world_size, options.config), (None, -1, 0, None))

    def test_off(self):
        """Disabled, ended, refused: nothing is called."""
        with mock.patch.dict(os.environ, LAGGARD_DISABLED="1"):
            self.assertFalse(laggard.init())
        self.use_all()
        self.assertEqual(self.library.calls, [])
        self.begin()
        self.assertTrue(laggard.end(0.5))
        self.assertEqual(self.library.calls, ["end 500"])
        self.use_all()
        self.assertFalse(laggard.flush())
        self.assertFalse(laggard.end())
        self.assertEqual(self.library.calls, ["end 500"])
        measure_into(self, FakeLibrary(status=2))
        self.assertFalse(laggard.init())
        self.use_all()

    def use_all(self):
        with laggard.step(samples=1), laggard.stage("forward"):
            laggard.value("loss", 1)
            laggard.tag("eval")
            laggard.sample_ids([1])
            laggard.config(a=1)
            for _ in laggard.wrap_loader([1]):
                pass

    def test_stages_get_new_numbers_when_it_begins_again(self):
        self.begin()
        forward = laggard.stage("forward")
        laggard.end()
        self.assertEqual(forward.id, -1)
        self.begin()
        self.assertEqual((forward.id, laggard.stage("forward")), (0, forward))

    def test_a_decorator_without_brackets(self):
        self.begin()

        @laggard.stage
        def forward(a, b=0):
            return a + b

        self.assertEqual((forward(1, b=2), forward.__name__), (3, "forward"))
        self.assertEqual(self.library.calls, ["begin forward", "end forward"])

    def test_the_place_in_torchs_process_group(self):
        group = types.SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 2, get_world_size=lambda: 4
        )
        for distributed, place in ((group, (2, 4)), (None, (-1, 0))):
            with mock.patch.dict(sys.modules, torch=types.SimpleNamespace(distributed=distributed)):
                self.begin()
            options = self.library.options
            self.assertEqual((options.otherwise_rank, options.otherwise_world_size), place)
            laggard.end()

    def test_it_begins_or_ends_inside_of_a_stage(self):
        outer, inner = laggard.stage("outer"), laggard.stage("inner")
        with laggard.step(), outer:
            self.begin()
            with inner:
                laggard.end()
            with inner:
                pass
        self.assertEqual(self.library.calls, ["begin inner", "end 2000"])

    def test_a_stage_first_seen_by_another_thread(self):
        self.begin()
        thread = threading.Thread(target=lambda: laggard.stage("forward"))
        thread.start()
        thread.join()
        with laggard.stage("forward"):
            pass
        self.assertEqual(self.library.calls, ["begin forward", "end forward"])

    def test_a_forked_child_calls_nothing(self):
        self.begin()
        child = os.fork()
        if child == 0:
            self.use_all()
            os._exit(0 if not self.library.calls and not laggard.flush() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        with laggard.stage("forward"):
            pass
        self.assertEqual(self.library.calls, ["begin forward", "end forward"])


class _Loader(list):
    sampler = "its sampler"


class _Tensor:
    """Of the CPU."""

    is_cuda = False

    def __init__(self, numbers):
        self._numbers = numbers

    def tolist(self):
        return self._numbers


if __name__ == "__main__":
    unittest.main()
