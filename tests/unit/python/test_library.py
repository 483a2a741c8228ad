"""Where the shared library is looked for, and which one does."""

import ast
import ctypes
import os
import pathlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fake_library  # noqa: F401

import laggard
from laggard import _library, _say

PACKAGE = Path(_library.__file__).parent


class Handle:
    """A shared library that has every function."""

    def __init__(self, path, version=laggard.__version__):
        self._version = version.encode()

    def __getattr__(self, name):
        function = mock.Mock(return_value=self._version)
        function.of = type(self)
        return function


class Short(Handle):
    """One whose calls keep the interpreter's lock."""


class Find(unittest.TestCase):
    def setUp(self):
        others = {name: value for name, value in os.environ.items() if not name.startswith("LAGGARD_")}
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = Path(directory.name).resolve()
        patch = mock.patch.dict(os.environ, {**others, "PATH": ""}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        _say._said.clear()

    def open_all(self, versions):
        """Files of these paths are libraries of these versions; everything else is no file."""

        def open_one(path):
            if path not in versions:
                raise OSError(f"{path}: cannot open shared object file")
            return Handle(path, versions[path])

        for name in ("CDLL", "PyDLL"):
            patch = mock.patch.object(ctypes, name, open_one)
            patch.start()
            self.addCleanup(patch.stop)

    def load(self):
        with self.assertLogs("laggard") as logs:
            found = _library.load()
            _library.load()
        return found, [record.getMessage() for record in logs.records]

    def test_the_variable_first_and_the_system_last(self):
        found = _library.candidates({"LAGGARD_LIBRARY": "/a/b.so", "PATH": ""})
        self.assertEqual((found[0], found[-2:]), ("/a/b.so", ["liblaggard.so.0", "liblaggard.so"]))

    def test_the_tree_of_the_programs(self):
        """As `laggard doctor` does, which looks from where it lies itself."""
        for name in ("bin/laggard", "lib/x86_64-linux-gnu/liblaggard.so.0.1.0"):
            (self.home / name).parent.mkdir(parents=True)
            (self.home / name).touch(mode=0o755)
        library = self.home / "lib/x86_64-linux-gnu/liblaggard.so.0.1.0"
        (library.parent / "liblaggard.so.0").symlink_to(library.name)
        (library.parent / "liblaggard.so").symlink_to(library.name)
        found = _library.candidates({"PATH": str(self.home / "bin")})
        self.assertEqual(found.count(library), 1, found)

    def test_a_missing_library_is_said_once(self):
        os.environ["LAGGARD_LIBRARY"] = "/nowhere/liblaggard.so"
        self.open_all({})
        found, said = self.load()
        self.assertIsNone(found)
        self.assertEqual(len(said), 1)
        self.assertIn("/nowhere/liblaggard.so", said[0])
        self.assertFalse(laggard.init())
        self.assertEqual(laggard.stats(), {})

    def test_a_library_that_is_another(self):
        with mock.patch.object(_library, "candidates", lambda: ["libc.so.6"]), self.assertLogs("laggard"):
            self.assertIsNone(_library.load())

    def test_one_that_is_named_and_does_not_load_is_no_reason_to_measure_nothing(self):
        os.environ["LAGGARD_LIBRARY"] = "/nowhere/liblaggard.so"
        self.open_all({"liblaggard.so.0": laggard.__version__})
        found, said = self.load()
        self.assertEqual(found.path, "liblaggard.so.0")
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "/nowhere/liblaggard.so: cannot open.* liblaggard.so.0 that measures")

    def test_one_of_another_release(self):
        os.environ["LAGGARD_LIBRARY"] = "/opt/liblaggard.so"
        self.open_all({"/opt/liblaggard.so": "9.1.0", "liblaggard.so.0": laggard.__version__})
        found, said = self.load()
        self.assertEqual(found.path, "liblaggard.so.0")
        self.assertIn("/opt/liblaggard.so has the version 9.1.0", said[0])

    def test_one_of_the_same_release_with_other_mistakes(self):
        os.environ["LAGGARD_LIBRARY"] = "/opt/liblaggard.so"
        release = laggard.__version__.rpartition(".")[0]
        self.open_all({"/opt/liblaggard.so": f"{release}.99"})
        found, said = self.load()
        self.assertEqual(found.path, "/opt/liblaggard.so")
        self.assertEqual(len(said), 1)
        self.assertIn(f"has the version {release}.99", said[0])

    def test_what_waits_lets_go_of_the_interpreters_lock(self):
        with mock.patch.object(ctypes, "CDLL", Handle), mock.patch.object(ctypes, "PyDLL", Short):
            library = _library.Library("liblaggard.so")
        on_stream = ("stage_begin_on", "stage_end_on", "stage_drop_on", "step_begin_on", "step_end_on")
        for name in ("init", "flush", "end", *on_stream):
            self.assertIs(getattr(library, name).of, Handle, name)
        for name in ("stage_begin", "stage_end", "stage_drop", "step_begin", "step_end", "count"):
            self.assertIs(getattr(library, name).of, Short, name)
        self.assertEqual(library.step_begin_on.argtypes, [ctypes.c_int64])


class Python39(unittest.TestCase):
    """The oldest one that is promised; tests run with whatever there is."""

    def test_the_parents_of_a_path_have_no_slices_there(self):
        class Parents(tuple):
            def __getitem__(self, index):
                if isinstance(index, slice):
                    raise TypeError("'<' not supported between instances of 'slice' and 'int'")
                return super().__getitem__(index)

        of_now = pathlib.PurePath.parents.fget
        older = property(lambda path: Parents(of_now(path)))
        with mock.patch.object(pathlib.PurePath, "parents", older):
            self.assertTrue(_library.candidates({}))

    def test_the_syntax(self):
        for source in [*PACKAGE.glob("*.py"), PACKAGE.parent / "build_package.py"]:
            ast.parse(source.read_text(), source.name, feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
