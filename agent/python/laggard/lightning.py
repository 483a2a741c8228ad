"""For Lightning: Trainer(..., callbacks=[LaggardCallback()]).

Stages: load (from the end of a batch or a validation to the next batch), forward (training_step), backward (with the
gradients' all-reduce: sync), optimizer. A step has as many batches as are accumulated. One that has a checkpoint or a
validation in it has their tag, and so has one whose batch was waited for when a checkpoint came.
"""

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from . import _measure
from ._phases import Phases


class LaggardCallback(Callback):
    """Arguments are those of laggard.init(), which it calls when the training starts."""

    def __init__(self, *arguments, **named):
        super().__init__()
        self._arguments, self._named = arguments, named
        self._phases = Phases()
        self._global_step = None

    # Lightning 1 hands some hooks more than later versions do.

    def on_train_start(self, trainer, pl_module, *_):
        self._breaks_off()
        # Of the processes that Lightning itself starts, none finds its rank in the environment.
        place = (getattr(trainer, "global_rank", -1), getattr(trainer, "world_size", 0))
        _measure.init(*self._arguments, **self._named, _place=place)
        self._global_step = trainer.global_step

    def _breaks_off(self):
        self._phases.breaks_off()
        self._global_step = None

    def on_train_epoch_start(self, trainer, pl_module, *_):
        self._phases.waits_for_data()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self._phases.begins_step()
        self._phases.begins_forward()

    def on_before_backward(self, trainer, pl_module, loss, *_):
        self._phases.begins_backward()

    def on_after_backward(self, trainer, pl_module, *_):
        self._phases.ends_stage()

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *_):
        self._phases.begins_optimizer()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._phases.ends_stage()
        if trainer.global_step != self._global_step:
            self._global_step = trainer.global_step
            self._phases.ends_step()
        self._phases.waits_for_data()

    def on_save_checkpoint(self, trainer, pl_module, *_):
        # Lightning calls the callbacks that save after all others.
        self._phases.saves()

    def on_validation_start(self, trainer, pl_module, *_):
        self._phases.evaluates()

    def on_validation_end(self, trainer, pl_module, *_):
        # Before the first epoch there is a validation too, to see that it works.
        if self._global_step is not None:
            self._phases.waits_for_data()

    def on_train_epoch_end(self, trainer, pl_module, *_):
        self._phases.does_something_else()

    def on_exception(self, trainer, pl_module, exception, *_):
        self._breaks_off()

    def on_train_end(self, trainer, pl_module, *_):
        self._breaks_off()
        _measure.end()
