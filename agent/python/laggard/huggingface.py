"""For the Trainer of Hugging Face: Trainer(..., callbacks=[LaggardCallback()]).

Stages: load (from the end of a step, an evaluation or a checkpoint to the next step, and from the end of a batch to
the next forward where batches are accumulated), forward (of the model),
backward (what is between it and the optimizer, with the gradients' all-reduce: sync), optimizer (with versions of
transformers that tell of on_pre_optimizer_step).
"""

from transformers import TrainerCallback

from . import _measure
from ._phases import Phases, follow_forward


class LaggardCallback(TrainerCallback):
    """Arguments are those of laggard.init(), which it calls when the training begins."""

    def __init__(self, *arguments, **named):
        self._arguments, self._named = arguments, named
        self._phases = Phases()
        self._hooks = []

    def on_train_begin(self, args, state, control, **kwargs):
        # A training that ran out of memory is begun again without an end.
        self._breaks_off()
        _measure.init(*self._arguments, **self._named)
        self._hooks = follow_forward(kwargs.get("model"), self._phases, self._phases.begins_backward)

    def _breaks_off(self):
        self._phases.breaks_off()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def on_epoch_begin(self, args, state, control, **kwargs):
        self._phases.waits_for_data()

    def on_step_begin(self, args, state, control, **kwargs):
        self._phases.begins_step()

    def on_substep_end(self, args, state, control, **kwargs):
        self._phases.ends_batch()

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self._phases.begins_optimizer()

    def on_optimizer_step(self, args, state, control, **kwargs):
        self._phases.ends_stage()

    def on_step_end(self, args, state, control, **kwargs):
        self._phases.ends_step()
        self._phases.waits_for_data()

    def on_log(self, args, state, control, **kwargs):
        self._was_between_steps()

    def on_evaluate(self, args, state, control, **kwargs):
        self._was_between_steps()

    def on_save(self, args, state, control, **kwargs):
        self._was_between_steps()

    def _was_between_steps(self):
        if not self._phases.in_step:
            self._phases.waits_for_data()

    def on_epoch_end(self, args, state, control, **kwargs):
        self._phases.does_something_else()

    def on_train_end(self, args, state, control, **kwargs):
        self._breaks_off()
        _measure.end()
