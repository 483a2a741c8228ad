"""A library that writes down what it is asked for."""

import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "agent" / "python"))

import laggard  # noqa: E402
from laggard import _measure, _say  # noqa: E402


class FakeLibrary:
    """Calls are strings such as "begin forward"; the settings that init() was given are `options`."""

    def __init__(self, status=0):
        self.calls = []
        self.stages = []
        self.options = None
        self.ignored_calls = 0
        self._status = status
        self._names = []
        self._in_step = False

    def init(self, options):
        self.options = options._obj
        return self._status

    def end(self, timeout_ms):
        self.calls.append(f"end {timeout_ms}")
        return 0

    def flush(self, timeout_ms):
        self.calls.append(f"flush {timeout_ms}")
        return 0

    def config(self, text):
        self.calls.append(f"config {text.decode() if text else text}")
        return 0

    def stage_id(self, name, kind):
        self.stages.append((name.decode(), kind))
        return self._id(name)

    def _id(self, name):
        if name.decode() not in self._names:
            self._names.append(name.decode())
        return self._names.index(name.decode())

    count_id = value_id = _id

    def _name(self, number):
        return self._names[number] if number >= 0 else "nothing"

    def step_begin(self, number):
        self.calls.append(f"step {number}")
        self._in_step = True

    def step_begin_on(self, number):
        self.step_begin(f"on {number}")

    def step_end(self):
        self.calls.append("step end")
        self.ignored_calls += not self._in_step
        self._in_step = False

    def step_end_on(self):
        self.calls.append("on")
        self.step_end()

    def stage_begin(self, number):
        self.calls.append(f"begin {self._name(number)}")

    def stage_end(self, number):
        self.calls.append(f"end {self._name(number)}")

    def stage_begin_on(self, number, stream):
        self.calls.append(f"begin {self._name(number)} on {stream}")

    def stage_end_on(self, number, stream):
        self.calls.append(f"end {self._name(number)} on {stream}")

    def stage_drop(self, number):
        self.calls.append(f"drop {self._name(number)}")

    def stage_drop_on(self, number):
        self.calls.append(f"drop {self._name(number)} on")

    def count(self, number, amount):
        self.calls.append(f"count {self._name(number)} {amount}")

    def value(self, number, value):
        self.calls.append(f"value {self._name(number)} {value}")

    def tag(self, name):
        self.calls.append(f"tag {name.decode()}")

    def sample_ids(self, ids, count):
        self.calls.append(f"samples {list(ids[:count])}")

    def get_stats(self, stats):
        stats._obj.ignored_calls = self.ignored_calls
        return 0


def measure_into(test, library=None):
    """The package as it is after its import, with this library; it is as before when the test has ended."""
    library = library or FakeLibrary()
    _measure._stages.clear()
    _measure._loaded = library
    _say._said.clear()

    def forget():
        _measure.end()
        _measure._loaded = None
        _measure._stages.clear()

    test.addCleanup(forget)
    return library


class Measuring(unittest.TestCase):
    """A process that measures into `library`, and whose environment has nothing of laggard's."""

    def setUp(self):
        others = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        patch = mock.patch.dict(os.environ, others, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.library = measure_into(self)

    def begin(self, **options):
        self.assertTrue(laggard.init(**options))
