"""liblaggard.so: where it is, and its functions as laggard.h has them."""

import ctypes
import os
import shutil
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from . import __version__
from ._say import say_once

OK, OFF, FORKED = 0, 1, 4
NEXT_STEP = -1
NAMES = ("liblaggard.so.0", "liblaggard.so")


class Options(Structure):
    """laggard_options."""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("world_size", c_uint32),
        ("attempt", c_uint32),
        ("queue_records", c_uint32),
        ("held_steps", c_uint32),
        ("collector", c_char_p),
        ("run", c_char_p),
        ("config", c_char_p),
        ("key_file", c_char_p),
        ("collector_key", c_char_p),
        ("spool", c_char_p),
        ("spool_mb", c_uint32),
        ("cuda", c_char_p),
        ("otherwise_run", c_char_p),
        ("otherwise_rank", c_int32),
        ("otherwise_world_size", c_uint32),
    ]


class Stats(Structure):
    """laggard_stats."""

    _fields_ = [
        ("size", c_size_t),
        ("recorded", c_uint64),
        ("delivered", c_uint64),
        ("dropped", c_uint64),
        ("waiting", c_uint64),
        ("ignored_calls", c_uint64),
        ("other_thread_calls", c_uint64),
        ("connected", c_uint32),
        ("device_lost", c_uint64),
    ]


# Those that wait, read files or call CUDA, which may wait for room in the queue of a stream, let go of the
# interpreter's lock, so that the job's other threads go on; the others are done before that would pay.
_WAITING = {
    "laggard_init": (c_int, [POINTER(Options)]),
    "laggard_flush": (c_int, [c_uint32]),
    "laggard_end": (c_int, [c_uint32]),
    "laggard_stage_begin_on": (None, [c_int, c_void_p]),
    "laggard_stage_end_on": (None, [c_int, c_void_p]),
}
_SHORT = {
    "laggard_version": (c_char_p, []),
    "laggard_config": (c_int, [c_char_p]),
    "laggard_stage_id": (c_int, [c_char_p, c_int]),
    "laggard_count_id": (c_int, [c_char_p]),
    "laggard_value_id": (c_int, [c_char_p]),
    "laggard_step_begin": (None, [c_int64]),
    "laggard_step_end": (None, []),
    "laggard_stage_begin": (None, [c_int]),
    "laggard_stage_end": (None, [c_int]),
    "laggard_stage_drop": (None, [c_int]),
    "laggard_count": (None, [c_int, c_int64]),
    "laggard_value": (None, [c_int, c_double]),
    "laggard_tag": (None, [c_char_p]),
    "laggard_sample_ids": (None, [POINTER(c_int64), c_size_t]),
    "laggard_get_stats": (c_int, [POINTER(Stats)]),
}
# Which call CUDA while stages are timed on a stream: then they are called by these names with an _on behind it.
_SHORT_WITHOUT_STREAM = ("laggard_step_begin", "laggard_step_end", "laggard_stage_drop")


class Library:
    """The functions, without their prefix. Raises OSError or AttributeError for a file that is not the library."""

    def __init__(self, path):
        self.path = str(path)
        waiting, short = ctypes.CDLL(self.path), ctypes.PyDLL(self.path)
        for name, signature in _WAITING.items():
            self._take(waiting, name, signature)
        for name, signature in _SHORT.items():
            self._take(short, name, signature)
        for name in _SHORT_WITHOUT_STREAM:
            self._take(waiting, name, _SHORT[name], "_on")

    def _take(self, handle, name, signature, suffix=""):
        function = getattr(handle, name)
        function.restype, function.argtypes = signature
        setattr(self, name[len("laggard_") :] + suffix, function)


def candidates(environment=os.environ):
    """The places to look at, in their order: a path, or a name for the system's search."""
    named = environment.get("LAGGARD_LIBRARY")
    here = Path(__file__).resolve().parent
    found = [here / name for name in NAMES]
    # From the package in an install tree, PREFIX/share/laggard/python/laggard, to PREFIX/lib.
    for prefix in list(here.parents)[1:5]:
        found += _in_tree(prefix)
    program = shutil.which("laggard", path=environment.get("PATH", os.defpath))
    if program:
        found += _in_tree(Path(program).resolve().parent.parent)
    files = dict.fromkeys(path.resolve() for path in found if path.is_file())
    return ([named] if named else []) + list(files) + list(NAMES)


def _in_tree(prefix):
    found = [path for name in NAMES for path in sorted(prefix.glob(f"lib*/{name}"))]
    return found + [path for name in NAMES for path in sorted(prefix.glob(f"lib/*-linux-*/{name}"))]


def load():
    """The library, or None; what does not fit is said once."""
    reasons = []
    for candidate in candidates():
        try:
            library = _open(candidate)
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
            continue
        if reasons:
            say_once(f"{'; '.join(reasons)}; so it is {library.path} that measures")
        return library
    say_once("the shared library is not there, so nothing is measured: " + reasons[0] + "; LAGGARD_LIBRARY can name it")
    return None


def _open(path):
    """Raises as Library does, and for one of another release."""
    library = Library(path)
    version = library.version().decode()
    about = f"{path} has the version {version}, and the Python package {__version__}"
    # Another MAJOR.MINOR may have other functions. Between others the sizes of the structures say what is in them.
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise OSError(about)
    if version != __version__:
        say_once(about)
    return library
