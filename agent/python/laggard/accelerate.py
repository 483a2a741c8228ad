"""For loops with Accelerate, which has no callbacks: measure() watches what prepare() has returned.

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    laggard.init()
    laggard.accelerate.measure(accelerator, model, optimizer)
    for batch in laggard.wrap_loader(loader):
        ...

Stages: load (by wrap_loader), forward, backward (with the gradients' all-reduce: sync), optimizer. A step begins with
the first forward and ends with the optimizer's step in which the gradients are synchronised, so that accumulated
batches are one.
"""

import functools

from ._phases import Phases, follow_forward


class _StepAtForward(Phases):
    def begins_forward(self):
        self.begins_step()
        super().begins_forward()


def measure(accelerator, model, optimizer):
    """Measures accelerator.backward(), the model's forward in training and optimizer.step(), from here on."""
    phases = _StepAtForward()
    follow_forward(model, phases, phases.ends_stage)
    accelerator.backward = _measured_backward(accelerator.backward, phases)
    optimizer.step = _measured_step(optimizer.step, accelerator, phases)


def _measured_backward(backward, phases):
    @functools.wraps(backward)
    def measured(*arguments, **named):
        phases.begins_backward()
        try:
            return backward(*arguments, **named)
        finally:
            phases.ends_stage()

    return measured


def _measured_step(step, accelerator, phases):
    @functools.wraps(step)
    def measured(*arguments, **named):
        # A step of the optimizer that is skipped while batches are accumulated is no stage.
        if accelerator.sync_gradients:
            phases.begins_optimizer()
        try:
            return step(*arguments, **named)
        finally:
            if accelerator.sync_gradients:
                phases.ends_step()

    return measured
