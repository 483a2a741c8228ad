"""What the functions of the package ask of the library."""

import os
import sys
import threading
import types
import unittest
from unittest import mock

from fake_library import FakeLibrary, measure_into

import laggard
from laggard import _library, _measure


class Measure(unittest.TestCase):
    def setUp(self):
        others = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        patch = mock.patch.dict(os.environ, others, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.library = measure_into(self)

    def begin(self, **options):
        self.assertTrue(laggard.init(**options))

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
        self.assertEqual(self.library.calls, ["step -1", "begin forward", "end forward", "step end"])

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
        with self.assertLogs("laggard") as logs:
            laggard.sample_ids(_Tensor([6], is_cuda=True))
            laggard.sample_ids(["a"])
            laggard.sample_ids([2**63])
            laggard.sample_ids(None)
        self.assertEqual(len(logs.records), 2, "each sentence once")
        self.assertEqual(len(self.library.calls), 5)

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

    def test_settings_that_json_cannot_have(self):
        self.begin(config={"path": os, "rate": 0.1})
        self.assertIn(b'"rate": 0.1', self.library.options.config)
        circle = {}
        circle["itself"] = circle
        with self.assertLogs("laggard"):
            laggard.config(**circle)
        self.assertEqual(self.library.calls, ["config None"])

    def test_wrong_arguments_raise_nothing(self):
        self.begin()
        with self.assertLogs("laggard"):
            with laggard.stage("odd", kind="odd"):
                laggard.count("samples", "four")
                laggard.value("loss", None)
                laggard.tag(7)
        self.assertEqual(self.library.calls[0], "begin odd")

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


class Device(unittest.TestCase):
    def setUp(self):
        self.library = measure_into(self)
        self.stream = types.SimpleNamespace(cuda_stream=7)
        self.initialized = True
        self.torch = types.SimpleNamespace(
            version=types.SimpleNamespace(cuda="12.4"),
            cuda=types.SimpleNamespace(
                is_initialized=lambda: self.initialized,
                current_stream=lambda: self.stream,
            ),
        )
        patch = mock.patch.dict(sys.modules, torch=self.torch)
        patch.start()
        self.addCleanup(patch.stop)

    def calls_of_a_stage(self, **options):
        laggard.init(**options)
        with laggard.stage("forward"):
            pass
        return self.library.calls

    def test_on_the_current_stream(self):
        self.assertEqual(self.calls_of_a_stage(), ["begin forward on 7", "end forward on 7"])
        self.assertEqual(self.library.options.cuda, b"auto")

    def test_not_before_the_job_has_begun_on_its_gpu(self):
        """Which it never does without one."""
        self.initialized = False
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])

    def test_not_when_it_is_not_wanted(self):
        self.assertEqual(self.calls_of_a_stage(device=False), ["begin forward", "end forward"])
        self.assertEqual(self.library.options.cuda, b"none")

    def test_not_with_another_makers(self):
        self.torch.version.cuda = None
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])

    def test_the_variable_names_the_runtime(self):
        with mock.patch.dict(os.environ, LAGGARD_CUDA="/opt/libcudart.so"):
            self.calls_of_a_stage()
        self.assertIsNone(self.library.options.cuda)


class Find(unittest.TestCase):
    def test_the_variable_alone_when_it_is_set(self):
        self.assertEqual(_library.candidates({"LAGGARD_LIBRARY": "/a/b.so"}), ["/a/b.so"])

    def test_the_system_comes_last(self):
        self.assertEqual(_library.candidates({})[-2:], ["liblaggard.so.0", "liblaggard.so"])

    def test_a_missing_library_is_said_once(self):
        with mock.patch.dict(os.environ, LAGGARD_LIBRARY="/nowhere/liblaggard.so"):
            with self.assertLogs("laggard") as logs:
                self.assertIsNone(_library.load())
                self.assertIsNone(_library.load())
            self.assertEqual(len(logs.records), 1)
            self.assertFalse(laggard.init())
        self.assertEqual(laggard.stats(), {})

    def test_a_library_that_is_another(self):
        with mock.patch.dict(os.environ, LAGGARD_LIBRARY="libc.so.6"), self.assertLogs("laggard"):
            self.assertIsNone(_library.load())


class _Loader(list):
    sampler = "its sampler"


class _Tensor:
    def __init__(self, numbers, is_cuda=False):
        self._numbers = numbers
        self.is_cuda = is_cuda

    def tolist(self):
        return self._numbers


if __name__ == "__main__":
    unittest.main()
