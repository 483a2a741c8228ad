"""Stages on the stream of a PyTorch that stands in."""

import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from fake_library import measure_into

import laggard
from laggard import _device


class PyTorch(unittest.TestCase):
    def setUp(self):
        others = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        for patch in (mock.patch.dict(os.environ, others, clear=True), mock.patch.dict(sys.modules)):
            patch.start()
            self.addCleanup(patch.stop)
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

    def calls_of_a_stage(self):
        self.library.calls.clear()
        with laggard.stage("forward"):
            pass
        return self.library.calls

    def calls_of_a_step(self):
        self.library.calls.clear()
        with laggard.step():
            laggard.stage("load").__enter__().drop()
        return self.library.calls


class Imported(PyTorch):
    def setUp(self):
        super().setUp()
        sys.modules["torch"] = self.torch

    def test_on_the_current_stream(self):
        laggard.init()
        self.assertEqual(self.calls_of_a_stage(), ["begin forward on 7", "end forward on 7"])
        self.assertEqual(self.library.options.cuda, b"auto")

    def test_what_calls_cuda_lets_go_of_the_interpreters_lock(self):
        laggard.init()
        calls = ["step on -1", "begin load on 7", "drop load on", "on", "step end"]
        self.assertEqual(self.calls_of_a_step(), calls)

    def test_not_before_the_job_has_begun_on_its_gpu(self):
        """Which it never does without one."""
        self.initialized = False
        laggard.init()
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])
        self.assertEqual(self.calls_of_a_step(), ["step -1", "begin load", "drop load", "step end"])

    def test_not_when_it_is_not_wanted(self):
        laggard.init(device=False)
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])
        self.assertEqual(self.library.options.cuda, b"none")

    def test_not_with_another_makers(self):
        self.torch.version.cuda = None
        laggard.init()
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])

    def test_the_variable_names_the_runtime(self):
        with mock.patch.dict(os.environ, LAGGARD_CUDA="/opt/libcudart.so"):
            laggard.init()
        self.assertIsNone(self.library.options.cuda)

    def test_a_gpu_that_fails_is_not_for_a_stage_to_tell(self):
        laggard.init()
        self.stream = None
        self.assertEqual(self.calls_of_a_stage(), ["begin forward", "end forward"])


class ImportedLater(PyTorch):
    """What is installed is found without importing it."""

    def setUp(self):
        super().setUp()
        sys.modules.pop("torch", None)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.packages = Path(directory.name)
        patch = mock.patch.object(sys, "path", [str(self.packages), *sys.path])
        patch.start()
        self.addCleanup(patch.stop)
        (self.packages / "torch").mkdir()
        (self.packages / "torch/__init__.py").write_text("raise ImportError('it is not to be imported')")

    def install(self, version, runtime=None):
        (self.packages / "torch/version.py").write_text(f"__version__ = '2.5'\n{version}\nhip = None\n")
        if runtime:
            (self.packages / runtime).parent.mkdir(parents=True)
            (self.packages / runtime).touch()

    def test_its_stages_are_timed_from_the_next_step_on(self):
        self.install("cuda: Optional[str] = '12.4'", "nvidia/cuda_runtime/lib/libcudart.so.12")
        self.assertTrue(laggard.init())
        runtime = self.packages / "nvidia/cuda_runtime/lib/libcudart.so.12"
        self.assertEqual(self.library.options.cuda, os.fsencode(runtime))
        self.assertEqual(self.calls_of_a_step()[0], "step -1")
        sys.modules["torch"] = types.SimpleNamespace()
        self.assertEqual(self.calls_of_a_step()[0], "step -1", "while it is being imported")
        sys.modules["torch"] = self.torch
        self.assertEqual(self.calls_of_a_step()[:2], ["step on -1", "begin load on 7"])
        self.assertEqual(self.calls_of_a_stage(), ["begin forward on 7", "end forward on 7"])

    def test_a_runtime_that_is_a_part_of_it(self):
        self.install("cuda = '11.7'", "torch/lib/libcudart-e409450e.so.11.0")
        laggard.init()
        self.assertTrue(self.library.options.cuda.endswith(b"/torch/lib/libcudart-e409450e.so.11.0"))

    def test_a_runtime_of_another_release(self):
        self.install("cuda = '12.4'", "nvidia/cuda_runtime/lib/libcudart.so.11.0")
        laggard.init()
        self.assertEqual(self.library.options.cuda, b"auto")

    def test_one_without_cuda(self):
        self.install("cuda: Optional[str] = None")
        laggard.init()
        self.assertEqual(self.library.options.cuda, b"none")

    def test_none_that_can_be_read(self):
        self.assertEqual(_device.runtime(), b"none")
        with mock.patch.object(sys, "path", []):
            self.assertEqual(_device.runtime(), b"none")

    def test_the_variable(self):
        self.install("cuda = '12.4'")
        for said, told in (("/opt/libcudart.so", None), ("none", b"none")):
            with mock.patch.dict(os.environ, LAGGARD_CUDA=said):
                self.assertEqual(_device.runtime(), told)


if __name__ == "__main__":
    unittest.main()
