"""Steps and stages, and what else a step has. Whatever is called thousands of times a second is short here."""

import array
import ctypes
import functools
import inspect
import json
import math
import operator
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from . import _device, _library
from ._say import never_raises, say_once

_NEXT_STEP = _library.NEXT_STEP
_KINDS = {None: 0, "work": 1, "input": 2, "sync": 3, "aside": 4}
_NONE = -1  # the number of a name that has none; calls with it do nothing
_MS = 1000
_MOST_MS = 2**32 - 1
_LEAST, _MOST = -(2**63), 2**63 - 1  # of the library's integers
_USUAL_S = 2.0
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _nothing(*_):
    pass


# The functions of the library while it measures; else they do nothing.
_step_begin = _step_end = _stage_begin = _stage_end = _stage_drop = _nothing
_count = _value = _tag = _sample_ids = _nothing

_loaded = None  # the library, once it was looked for and found
_measuring = False
_thread = 0  # that measures
# The block that has begun the step, or begin_step. In a list: older Pythons look up all globals of a module anew after
# one has been set.
_open_step = [None]
_stages = {}
_count_ids = {}
_value_ids = {}


# Takes anything and gives what is not true, as __exit__ must, without a call of a function of Python's.
_nothing_at_exit = "".format


class Stage:
    """A named part of a step: a context manager that may be entered again and again, and a decorator.

    One that is not measured does nothing; while it is measured, its class is _Measured.
    """

    __slots__ = ("id", "kind", "name")

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.id = _NONE

    def __enter__(self):
        return self

    __exit__ = _nothing_at_exit

    def drop(self):
        """Takes back the call that is open, as if it had not been entered."""

    def __call__(self, function):
        if _only_begins(function):
            say_once(f"{self.name} is not measured: a call of a coroutine or generator only begins it, so use a block")
            return function

        @functools.wraps(function)
        def measured(*arguments, **named):
            with self:
                return function(*arguments, **named)

        return measured


class _Measured(Stage):
    """A stage with a number of the library's. A class of its own, so that neither kind has to ask at each call."""

    __slots__ = ()

    def __enter__(self):
        _stage_begin(self.id)
        return self

    def __exit__(self, _kind=None, _error=None, _trace=None):
        _stage_end(self.id)

    def drop(self):
        _stage_drop(self.id)


_UNMEASURED = Stage("", None)


def _only_begins(function):
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_one(function) for is_one in kinds)


def stage(name, kind=None):
    """A part of the step: `with laggard.stage("forward"):`, or `@laggard.stage("forward")` above a function.

    Stages nest: one that is entered inside another is a part of it. Entered n times in a step it has n calls
    and the sum of their times. `kind` is "work", "input" (waiting for data), "sync" (contains waiting for other
    ranks, as a backward with its all-reduce does) or "aside" (checkpoint, evaluation, logging); the first one
    said for a name counts, and without any its name decides, or a job profile.
    """
    try:
        found = _stages[name]
    except Exception:  # it is new, or has no hash
        return _mention(name, kind)
    if kind is not None and found.kind is None:
        return _mention(name, kind)
    return found


@never_raises("a stage is left out: its name is a text", otherwise=_UNMEASURED)
def _mention(name, kind):
    if callable(name):  # @laggard.stage without brackets, or a class handed over by mistake
        return stage(getattr(name, "__name__", "stage"), kind)(name)
    if kind is not None and not (isinstance(kind, str) and kind in _KINDS):
        named = repr(kind) if isinstance(kind, str) else f"of the type {type(kind).__name__}"
        say_once(f"there is no stage kind {named}: it is one of work, input, sync and aside")
        kind = None
    found = _stages.get(name)
    # Another thread gets no number, and says no kind; the one that measures may want to later.
    if _measuring and threading.get_ident() != _thread:
        return found or Stage(str(name), kind)
    if found is None:
        found = _stages[name] = Stage(str(name), kind)
    elif kind is None:
        return found
    found.kind = kind
    _number(found)
    return found


@never_raises("a stage is not measured")
def _number(one):
    if _measuring:
        one.id = _loaded.stage_id(_text(one.name), _KINDS[one.kind])
        one.__class__ = Stage if one.id < 0 else _Measured


class _NoStep:
    __slots__ = ()

    def __enter__(self):
        return self

    __exit__ = _nothing_at_exit


_NO_STEP = _NoStep()


class _Step:
    __slots__ = ("_counts", "_number")

    def __init__(self, number, counts):
        self._number = number
        self._counts = counts

    def __enter__(self):
        _open_step[0] = self
        _step_begin(self._number)
        for name, amount in self._counts.items():
            count(name, amount)
        return self

    def __exit__(self, raised, *_):
        if raised is not None:
            tag("exception")  # what broke off is no step to compare
        if _open_step[0] is self:
            _step_end()
        else:
            _end_another_step()


@never_raises("a step is not ended")
def _end_another_step():
    before = stats()
    _step_end()
    # Else it was another thread's that came between, which ends none of this one's.
    if stats().get("ignored_calls", 0) > before.get("ignored_calls", 0):
        say_once(
            "a step was to end that is not open: a step that is begun inside another ends that one. A step is one"
            " optimizer update; for what is inside it there are stages"
        )


def step(number=None, **counts):
    """A step, one optimizer update: `with laggard.step(samples=len(batch)):`.

    `number` is 0 or more; without it, one more than the last. `counts` are added up, as by count(). A step that is
    begun inside another ends that one.
    """
    if not _measuring:
        return _NO_STEP
    if number is None:
        number = _NEXT_STEP
    elif type(number) is not int or not 0 <= number <= _MOST:
        number = _step_number(number)
    return _Step(number, counts)


def _step_number(number):
    found = _integer(number)
    if found is None or found < 0:
        say_once("a step's number is an integer from 0 on; what is none is left out, and the step is the next one")
        return _NEXT_STEP
    return found


def begin_step(number=None):
    """For loops that have no block for a step: a step that is open ends where the next begins."""
    _open_step[0] = begin_step
    _step_begin(_NEXT_STEP if number is None else _step_number(number))


def end_step():
    """Ends what begin_step() has begun."""
    if _open_step[0] is begin_step:
        _step_end()
    else:
        _end_another_step()


def count(name, amount):
    """Adds to a count of the step, such as samples or tokens: an integer."""
    if not _measuring:
        return
    try:
        number = _count_ids.get(name)
        if number is not None and type(amount) is int and 0 <= amount <= _MOST:
            return _count(number, amount)
    except Exception:  # what it was is said below
        pass
    _count_other(name, amount)


@never_raises("a count is left out: it has a name and an integer")
def _count_other(name, amount):
    number = _integer(amount)
    if number is None:
        say_once(f"the count {name} is an integer of 64 bits, and not on a GPU: {type(amount).__name__} is left out")
    else:
        _count(_id_of(_count_ids, name, "count_id"), number)


def _integer(number):
    """None for what is none, is beyond the library's, or would have to be waited for."""
    try:
        found = None if _is_on_gpu(number) else operator.index(number)
    except Exception:
        return None
    return found if found is not None and _LEAST <= found <= _MOST else None


def _is_on_gpu(what):
    return getattr(what, "is_cuda", False)


def value(name, number):
    """Sets a value of the step, a float such as padding_fraction. What is still on a GPU would have to be waited
    for and is left out, so hand in what you have read from there yourself."""
    if not _measuring:
        return
    kind = type(number)
    try:
        index = _value_ids.get(name)
        if index is not None and (kind is float or kind is int):
            return _value(index, number)
    except Exception:  # what it was is said below
        pass
    _value_other(name, number)


@never_raises("a value is left out: it has a name and a float")
def _value_other(name, number):
    if _is_on_gpu(number):
        return say_once(f"the value {name} on a GPU is not taken: to read it is to wait for it")
    try:
        _value(_id_of(_value_ids, name, "value_id"), number)
    except (ctypes.ArgumentError, TypeError):
        say_once(f"the value {name} is a float: {type(number).__name__} is left out")


def _id_of(ids, name, ask):
    if name not in ids:
        if not _measuring or threading.get_ident() != _thread:
            return _NONE
        ids[name] = getattr(_loaded, ask)(_text(name))
    return ids[name]


def tag(name):
    """Marks the step: "checkpoint", "eval" and "logging" are left out of reports. At most 64 different ones."""
    if _measuring:
        _set_tag(name)


@never_raises("a tag is left out: it is a name")
def _set_tag(name):
    if name is None:
        raise TypeError("None is none")
    _tag(_text(name))


def sample_ids(ids):
    """Adds the indices of samples that the step uses: integers, a list, an array or a tensor of the CPU."""
    if _measuring:
        _add_sample_ids(ids)


@never_raises("sample indices are left out: they are integers of 64 bits in one dimension")
def _add_sample_ids(ids):
    if _is_on_gpu(ids):
        return say_once("sample indices on a GPU are not taken: to read them is to wait for it")
    if isinstance(ids, (bytes, bytearray)):
        raise TypeError("array would take bytes for the memory of integers")
    numbers = array.array("q", ids.tolist() if hasattr(ids, "tolist") else ids)
    _sample_ids((ctypes.c_int64 * len(numbers)).from_buffer(numbers), len(numbers))


def _text(text):
    encoded = str(text).encode("utf-8", "replace")
    if 0 in encoded:
        raise ValueError(f"{str(text)!r} has a NUL, where it would end in C")
    return encoded


@never_raises("init() was given what it cannot take, so nothing is measured", otherwise=False)
def init(
    run=None,
    *,
    rank=None,
    world_size=None,
    attempt=None,
    collector=None,
    config=None,
    topology=None,
    queue_records=None,
    key_file=None,
    collector_key=None,
    spool=None,
    spool_mb=None,
    device=True,
    _place=None,  # rank and world size, as a framework knows them that tells the environment less
):
    """Begins to measure on this thread; True when it does.

    Whatever is not given is that of the environment (LAGGARD_RUN, LAGGARD_INGEST, ...) or of the launcher:
    torchrun, jsrun, PALS, mpirun, Flux, Slurm. Numbers may be texts, as os.environ has them. A run that nobody names
    has the name of the script. `config` are settings of the run, a dict or what argparse gives; `topology` is the
    place of this rank, such as {"dp": 0, "pp": 1}. With PyTorch on a GPU stages are timed there too, on its current
    stream, unless `device` is False.
    docs/api-c.md has the others.
    """
    global _measuring, _thread
    if _place is None:
        _place = _place_in_torch()
    library = None if _is_disabled() else _find_library()
    if library is None:
        return False
    if not _measuring:
        settings = _settings(config)
        if topology is not None:
            settings["topology"] = _settings(topology)
        options = _library.Options(
            size=ctypes.sizeof(_library.Options),
            rank=_given("rank", rank, least=-1, most=2**31 - 1, otherwise=-1),
            world_size=_given("world_size", world_size),
            attempt=_given("attempt", attempt),
            queue_records=_given("queue_records", queue_records),
            collector=_optional(collector),
            run=_optional(run),
            config=_json(settings),
            key_file=_optional(key_file),
            collector_key=_optional(collector_key),
            spool=_optional(spool),
            spool_mb=_given("spool_mb", spool_mb),
            cuda=_device.runtime() if device else b"none",
            otherwise_run=_text(_script_name()),
            otherwise_rank=_place[0],
            otherwise_world_size=_place[1],
        )
        status = library.init(ctypes.byref(options))
        if status == _library.FORKED:
            say_once(
                "this process was forked from one that measures, so nothing is measured in it: a rank is started anew"
                " (torchrun, mpirun, or multiprocessing's spawn)"
            )
        if status != _library.OK:
            return False
        _measuring = True
        _thread = threading.get_ident()
        _bind(_device.on_stream(library, _bind) if options.cuda != b"none" else library)
        for known in list(_stages.values()):
            _number(known)
    return True


@never_raises("rank and world size of torch.distributed are left out", otherwise=(-1, 0))
def _place_in_torch():
    """Of the process group, which processes that one of them has started may have without a launcher."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return -1, 0
    return distributed.get_rank(), distributed.get_world_size()


def _given(name, number, least=0, most=2**32 - 1, otherwise=0):
    """A number for the options, as a text too. The library would take one beyond its bounds for another."""
    if number is None or number == "":
        return otherwise
    found = int(number) if isinstance(number, str) else operator.index(number)
    if not least <= found <= most:
        raise ValueError(f"{name} is a number from {least} to {most}")
    return found


def _settings(given):
    return _members(given) or {}


@never_raises("settings of the run are left out: they are a dict, or the attributes of something")
def _members(given):
    if given is None:
        return None
    try:
        return dict(given)
    except (TypeError, ValueError):
        return dict(vars(given))


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
    for known in list(_stages.values()):
        known.__class__ = Stage
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


@never_raises("the settings of the run are left out, as JSON cannot have them")
def _json(settings):
    return json.dumps(_plain(settings)).encode() if settings else None


def _plain(setting):
    """As JSON, and who reads it, can have it: what is no number there becomes its text."""
    if setting is None or isinstance(setting, bool):
        return setting
    if isinstance(setting, int):
        return setting if _LEAST <= setting <= _MOST else str(setting)
    if isinstance(setting, float):
        return setting if math.isfinite(setting) else _NOT_FINITE.get(setting, "NaN")
    if isinstance(setting, Mapping):
        return {_plain(str(name)): _plain(value) for name, value in setting.items()}
    if isinstance(setting, (list, tuple)):
        return [_plain(one) for one in setting]
    text = setting if isinstance(setting, str) else str(setting)
    return text.encode("utf-8", "replace").decode()  # half a character, as a file's name may have, is none


def _script_name():
    script = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    return Path(script).stem or "python"


@never_raises("settings of the run are left out")
def config(**settings):
    """Settings of the run, anything that JSON has; each call replaces those given before. docs/records.md names
    the known keys, such as global_batch."""
    if _measuring:
        _loaded.config(_json(settings))


def flush(timeout_s=_USUAL_S):
    """Waits until everything handed over is delivered, at most so long; True when it is."""
    return _measuring and _loaded.flush(_ms(timeout_s)) == _library.OK


def end(timeout_s=_USUAL_S):
    """This rank has finished on purpose. Delivers what is left, for at most so long; True when nothing is lost.

    A process that exits without it delivers too, but its run then counts as broken off.
    """
    global _measuring
    if not _measuring or threading.get_ident() != _thread:
        return False
    timeout_ms = _ms(timeout_s)
    try:
        return _loaded.end(timeout_ms) == _library.OK
    finally:
        _measuring = False
        _unbind()


@never_raises("flush() and end() wait for a number of seconds, and for 2 without one", otherwise=int(_USUAL_S * _MS))
def _ms(seconds):
    return int(max(0, min(seconds * _MS, _MOST_MS)))


def stats():
    """What became of the steps, since the last init(): a dict with the members of laggard_stats, or {}."""
    if _loaded is None:
        return {}
    found = _library.Stats(size=ctypes.sizeof(_library.Stats))
    if _loaded.get_stats(ctypes.byref(found)) != _library.OK:
        return {}
    return {name: getattr(found, name) for name, _ in _library.Stats._fields_[1:]}
