"""Steps and stages, and what else a step has. Whatever is called thousands of times a second is short here."""

import array
import ctypes
import functools
import json
import os
import sys
import threading
from pathlib import Path

from . import _device, _library
from ._say import say_once

_KINDS = {None: 0, "work": 1, "input": 2, "sync": 3, "aside": 4}
_NONE = -1  # the number of a name that has none; calls with it do nothing
_MS = 1000


def _nothing(*_):
    pass


# The functions of the library while it measures; else they do nothing.
_step_begin = _step_end = _stage_begin = _stage_end = _stage_drop = _nothing
_count = _value = _tag = _sample_ids = _nothing

_loaded = None  # the library, once it was looked for and found
_measuring = False
_thread = 0  # that measures
_stages = {}
_count_ids = {}
_value_ids = {}


class Stage:
    """A named part of a step: a context manager that may be entered again and again, and a decorator."""

    __slots__ = ("id", "kind", "name")

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.id = _NONE

    # The number is looked at here, since a call that does nothing costs more than that.
    def __enter__(self):
        if self.id >= 0:
            _stage_begin(self.id)
        return self

    def __exit__(self, _kind=None, _error=None, _trace=None):
        if self.id >= 0:
            _stage_end(self.id)

    def drop(self):
        """Takes back the call that is open, as if it had not been entered."""
        _stage_drop(self.id)

    def __call__(self, function):
        @functools.wraps(function)
        def measured(*arguments, **named):
            with self:
                return function(*arguments, **named)

        return measured


def stage(name, kind=None):
    """A part of the step: `with laggard.stage("forward"):`, or `@laggard.stage("forward")` above a function.

    Stages nest: one that is entered inside another is a part of it. Entered n times in a step it has n calls
    and the sum of their times. `kind` is "work", "input" (waiting for data), "sync" (contains waiting for other
    ranks, as a backward with its all-reduce does) or "aside" (checkpoint, evaluation, logging); the first one
    said for a name counts, and without any its name decides, or a job profile.
    """
    found = _stages.get(name)
    return found if found is not None else _new_stage(name, kind)


def _new_stage(name, kind):
    if kind not in _KINDS:
        say_once(f"there is no stage kind {kind!r}: it is one of work, input, sync and aside")
        kind = None
    new = Stage(str(name), kind)
    # Another thread gets no number; the one that measures may want one later.
    if _measuring and threading.get_ident() != _thread:
        return new
    _number(new)
    _stages[name] = new
    return new


def _number(one):
    if _measuring:
        one.id = _loaded.stage_id(_text(one.name), _KINDS[one.kind])


class _Step:
    __slots__ = ("_counts", "_number")

    def __init__(self, number, counts):
        self._number = number
        self._counts = counts

    def __enter__(self):
        _step_begin(self._number)
        for name, amount in self._counts.items():
            count(name, amount)
        return self

    def __exit__(self, *_):
        _step_end()


def step(number=None, **counts):
    """A step, one optimizer update: `with laggard.step(samples=len(batch)):`.

    `number` is 0 or more; without it, one more than the last. `counts` are added up, as by count().
    """
    return _Step(_library.NEXT_STEP if number is None else number, counts)


def begin_step(number=_library.NEXT_STEP):
    """For loops that have no block for a step: a step that is open ends where the next begins."""
    _step_begin(number)


def end_step():
    """Ends what begin_step() has begun."""
    _step_end()


def count(name, amount):
    """Adds to a count of the step, such as samples or tokens: an integer."""
    number = _count_ids.get(name)
    if number is None:
        number = _id_of(_count_ids, name, "count_id")
    try:
        _count(number, amount)
    except (ctypes.ArgumentError, TypeError):
        say_once(f"the count {name} is an integer, not {type(amount).__name__}")


def value(name, number):
    """Sets a value of the step, a float such as padding_fraction. What is still on a GPU would have to be waited
    for, so hand in what you have read from there yourself."""
    index = _value_ids.get(name)
    if index is None:
        index = _id_of(_value_ids, name, "value_id")
    try:
        _value(index, number)
    except (ctypes.ArgumentError, TypeError):
        say_once(f"the value {name} is a float, not {type(number).__name__}")


def _id_of(ids, name, ask):
    if not _measuring or threading.get_ident() != _thread:
        return _NONE
    return ids.setdefault(name, getattr(_loaded, ask)(_text(name)))


def tag(name):
    """Marks the step: "checkpoint", "eval" and "logging" are left out of reports. At most 64 different ones."""
    _tag(_text(name))


def sample_ids(ids):
    """Adds the indices of samples that the step uses: integers, a list, an array or a tensor of the CPU."""
    if not _measuring:
        return
    if getattr(ids, "is_cuda", False):
        say_once("sample indices on a GPU are not taken: to read them is to wait for it")
        return
    try:
        numbers = array.array("q", ids.tolist() if hasattr(ids, "tolist") else ids)
    except (TypeError, OverflowError):
        say_once("sample indices are integers of 64 bits in one dimension")
        return
    _sample_ids((ctypes.c_int64 * len(numbers)).from_buffer(numbers), len(numbers))


def _text(text):
    return str(text).encode("utf-8", "replace")


def init(
    run=None,
    *,
    rank=None,
    world_size=None,
    attempt=None,
    collector=None,
    config=None,
    topology=None,
    queue_records=0,
    key_file=None,
    collector_key=None,
    spool=None,
    spool_mb=0,
    device=True,
):
    """Begins to measure on this thread; True when it does.

    Whatever is not given is that of the environment (LAGGARD_RUN, LAGGARD_INGEST, ...) or of the launcher:
    torchrun, jsrun, PALS, mpirun, Flux, Slurm. A run that nobody names has the name of the script. `config` are
    settings of the run, anything that JSON has; `topology` is the place of this rank, such as {"dp": 0, "pp": 1}.
    With PyTorch on a GPU stages are timed there too, on its current stream, unless `device` is False.
    docs/api-c.md has the others.
    """
    global _measuring, _thread
    library = None if _is_disabled() else _find_library()
    if library is None:
        return False
    if not _measuring:
        settings = dict(config or {})
        if topology is not None:
            settings["topology"] = dict(topology)
        options = _library.Options(
            size=ctypes.sizeof(_library.Options),
            rank=-1 if rank is None else rank,
            world_size=world_size or 0,
            attempt=attempt or 0,
            queue_records=queue_records,
            collector=_optional(collector),
            run=_optional(run),
            config=_json(settings),
            key_file=_optional(key_file),
            collector_key=_optional(collector_key),
            spool=_optional(spool),
            spool_mb=spool_mb,
            cuda=_device.runtime() if device else b"none",
            otherwise_run=_text(_script_name()),
        )
        if library.init(ctypes.byref(options)) != _library.OK:
            return False
        _measuring = True
        _thread = threading.get_ident()
        _bind(_device.on_stream(library) if options.cuda != b"none" else library)
        for known in _stages.values():
            _number(known)
    return True


def _is_disabled():
    return os.environ.get("LAGGARD_DISABLED", "") not in ("", "0")


def _find_library():
    global _loaded
    if _loaded is None:
        _loaded = _library.load()
    return _loaded


def _bind(library):
    global _step_begin, _step_end, _stage_begin, _stage_end, _stage_drop, _count, _value, _tag, _sample_ids
    _step_begin, _step_end = library.step_begin, library.step_end
    _stage_begin, _stage_end, _stage_drop = library.stage_begin, library.stage_end, library.stage_drop
    _count, _value, _tag, _sample_ids = library.count, library.value, library.tag, library.sample_ids


def _unbind():
    global _step_begin, _step_end, _stage_begin, _stage_end, _stage_drop, _count, _value, _tag, _sample_ids
    _step_begin = _step_end = _stage_begin = _stage_end = _stage_drop = _nothing
    _count = _value = _tag = _sample_ids = _nothing
    for known in _stages.values():
        known.id = _NONE
    _count_ids.clear()
    _value_ids.clear()


def _forget():
    # A data loader's process: the library does nothing in there, and init() says so.
    global _measuring
    if _measuring:
        _measuring = False
        _unbind()


os.register_at_fork(after_in_child=_forget)


def _optional(text):
    return None if text is None else _text(os.fspath(text) if isinstance(text, os.PathLike) else text)


def _json(settings):
    try:
        return json.dumps(settings, default=str).encode() if settings else None
    except (TypeError, ValueError) as error:
        say_once(f"the settings of the run are left out, as JSON cannot have them: {error}")
        return None


def _script_name():
    script = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    return Path(script).stem or "python"


def config(**settings):
    """Settings of the run, anything that JSON has; each call replaces those given before. docs/records.md names
    the known keys, such as global_batch."""
    text = _json(settings)
    if _measuring:
        _loaded.config(text)


def flush(timeout_s=2.0):
    """Waits until everything handed over is delivered, at most so long; True when it is."""
    return _measuring and _loaded.flush(_ms(timeout_s)) == _library.OK


def end(timeout_s=2.0):
    """This rank has finished on purpose. Delivers what is left, for at most so long; True when nothing is lost.

    A process that exits without it delivers too, but its run then counts as broken off.
    """
    global _measuring
    if not _measuring or threading.get_ident() != _thread:
        return False
    _measuring = False
    done = _loaded.end(_ms(timeout_s)) == _library.OK
    _unbind()
    return done


def _ms(seconds):
    return max(0, min(int(seconds * _MS), 0xFFFFFFFF))


def stats():
    """What became of the steps, since the last init(): a dict with the members of laggard_stats, or {}."""
    if _loaded is None:
        return {}
    found = _library.Stats(size=ctypes.sizeof(_library.Stats))
    if _loaded.get_stats(ctypes.byref(found)) != _library.OK:
        return {}
    return {name: getattr(found, name) for name, _ in _library.Stats._fields_[1:]}
