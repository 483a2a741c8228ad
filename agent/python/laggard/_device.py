"""The GPU's stream on which PyTorch works at the moment; nothing of it is imported here."""

import os
import sys


def runtime():
    """What laggard_options.cuda is to be: None leaves it to LAGGARD_CUDA, b"none" is no device times at all."""
    if os.environ.get("LAGGARD_CUDA") == "none":
        return b"none"
    torch = sys.modules.get("torch")
    # Whether there is a GPU is not asked: that would begin on it, and forked workers could not use it any more.
    if torch is None or not getattr(torch.version, "cuda", None):
        return b"none"
    return None if os.environ.get("LAGGARD_CUDA") else b"auto"


class _OnStream:
    """The library, with stages that are timed on PyTorch's current stream as well."""

    def __init__(self, library, cuda):
        self._library = library
        begin_on, end_on, current_stream = library.stage_begin_on, library.stage_end_on, cuda.current_stream

        def stage_begin(number):
            # An event makes a context on the current device, and before the job has chosen that it is the wrong one.
            if cuda.is_initialized():
                begin_on(number, current_stream().cuda_stream)
            else:
                library.stage_begin(number)

        def stage_end(number):
            if cuda.is_initialized():
                end_on(number, current_stream().cuda_stream)
            else:
                library.stage_end(number)

        self.stage_begin, self.stage_end = stage_begin, stage_end

    def __getattr__(self, name):
        return getattr(self._library, name)


def on_stream(library):
    return _OnStream(library, sys.modules["torch"].cuda)
