"""The GPU's stream on which PyTorch works at the moment; nothing of it is imported here."""

import importlib.util
import os
import re
import sys
from pathlib import Path

_NEEDED = ("current_stream", "is_initialized")


def runtime():
    """What laggard_options.cuda is to be: None leaves it to LAGGARD_CUDA, b"none" is no device times at all."""
    said = os.environ.get("LAGGARD_CUDA")
    torch = sys.modules.get("torch")
    if said == "none":
        return b"none"
    if torch is None:
        found = _installed_runtime()
    else:
        # Whether there is a GPU is not asked: that would begin on it, and forked workers could not use it any more.
        found = b"auto" if getattr(getattr(torch, "version", None), "cuda", None) else b"none"
    return None if said and found != b"none" else found


def _installed_runtime():
    """The runtime that PyTorch brings along: the library looks for one when it begins and not again, and PyTorch may
    be imported later."""
    try:
        package = Path(importlib.util.find_spec("torch").origin).parent
        version = re.search(r"^cuda\b[^=\n]*= *['\"](\d+)", (package / "version.py").read_text(), re.MULTILINE)
    except Exception:  # there is none, or none that looks as it should
        return b"none"
    if version is None:
        return b"none"
    for place in (package / "lib", *package.parent.glob("nvidia/*/lib"), Path(sys.prefix) / "lib"):
        for found in sorted(place.glob(f"libcudart*.so.{version[1]}*")):
            return os.fsencode(found)
    return b"auto"


class _OnStream:
    """The library, with stages that are timed on PyTorch's current stream as well."""

    def __init__(self, library, cuda):
        self._library = library
        is_initialized, current_stream = cuda.is_initialized, cuda.current_stream

        def stream():
            # An event makes a context on the current device, and before the job has chosen that it is the wrong one.
            try:
                return current_stream().cuda_stream if is_initialized() else None
            except Exception:  # what is wrong with the GPU is for the job's own calls to raise
                return None

        def stage_begin(number):
            on = stream()
            if on is None:
                library.stage_begin(number)
            else:
                library.stage_begin_on(number, on)

        def stage_end(number):
            on = stream()
            if on is None:
                library.stage_end(number)
            else:
                library.stage_end_on(number, on)

        def step_begin(number):
            (library.step_begin_on if is_initialized() else library.step_begin)(number)

        def step_end():
            (library.step_end_on if is_initialized() else library.step_end)()

        def stage_drop(number):
            (library.stage_drop_on if is_initialized() else library.stage_drop)(number)

        self.stage_begin, self.stage_end, self.stage_drop = stage_begin, stage_end, stage_drop
        self.step_begin, self.step_end = step_begin, step_end

    def __getattr__(self, name):
        return getattr(self._library, name)


class _BeforePyTorch:
    """The library until PyTorch is there, which is looked for at the beginning of each step."""

    def __init__(self, library, bind):
        self._library = library

        def step_begin(number):
            then = _with_stream(library) if "torch" in sys.modules else None
            if then is not None:
                bind(then)
            (then or library).step_begin(number)

        self.step_begin = step_begin

    def __getattr__(self, name):
        return getattr(self._library, name)


def _with_stream(library):
    # While it is being imported it has not all of its parts.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return _OnStream(library, cuda) if all(hasattr(cuda, name) for name in _NEEDED) else None


def on_stream(library, bind):
    """The library with stages timed on the device; `bind` gets another one when PyTorch is imported later."""
    return _with_stream(library) or _BeforePyTorch(library, bind)
