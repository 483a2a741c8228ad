"""The stages of a loop that somebody else runs, told apart by the moments that its hooks tell of."""

from . import _measure


class Phases:
    """One stage after the other: each moment ends the stage that is open."""

    def __init__(self):
        self._open = None
        self._load = _measure.stage("load", kind="input")
        self._forward = _measure.stage("forward")
        self._backward = _measure.stage("backward", kind="sync")
        self._optimizer = _measure.stage("optimizer")
        self.in_step = False

    def _go_on(self, stage):
        if self._open is not None:
            self._open.__exit__()
        self._open = stage
        if stage is not None:
            stage.__enter__()

    def waits_for_data(self):
        """From here on it can only be a batch that the loop waits for."""
        self.does_something_else()
        self._go_on(self._load)

    def does_something_else(self):
        """An evaluation, a checkpoint, the end: the waiting for a batch was none."""
        if self._open is self._load:
            self._load.drop()
            self._open = None

    def saves(self):
        """A checkpoint. The step that it is in, or whose batch was waited for, is not one to compare."""
        if self.in_step or self._open is self._load:
            _measure.tag("checkpoint")
        self.does_something_else()

    def evaluates(self):
        if self.in_step:
            _measure.tag("eval")
        self.does_something_else()

    def begins_step(self):
        if not self.in_step:
            self._go_on(None)
            self.in_step = True
            _measure.begin_step()

    def begins_forward(self):
        if self.in_step:
            self._go_on(self._forward)

    def begins_backward(self):
        if self.in_step:
            self._go_on(self._backward)

    def begins_optimizer(self):
        if self.in_step:
            self._go_on(self._optimizer)

    def ends_stage(self):
        if self.in_step:
            self._go_on(None)

    def ends_batch(self):
        """Of several in a step: what follows is the waiting for the next one."""
        # Without a forward that is told of, nothing would tell of the waiting's end either.
        is_told = self._open is self._backward
        self.ends_stage()
        if is_told:
            self.waits_for_data()

    def breaks_off(self):
        """The training ends, wherever it is: what is open is closed."""
        self.does_something_else()
        self.ends_step()

    def ends_step(self):
        if self.in_step:
            self._go_on(None)
            self.in_step = False
            _measure.end_step()


def follow_forward(model, phases, then):
    """Tells `phases` of the forward of a module, and calls `then` after it. Returns the handles to remove it with."""
    if not hasattr(model, "register_forward_pre_hook"):
        return []

    def before(module, _):
        if module.training:
            phases.begins_forward()

    def after(module, *_):
        if module.training:
            then()

    return [model.register_forward_pre_hook(before), model.register_forward_hook(after)]
