"""The time that a training loop waits for its data."""

from . import _measure


class _Batches:
    def __init__(self, batches, stage):
        self._batches = batches
        self._stage = stage

    def __iter__(self):
        return self

    def __next__(self):
        stage = self._stage
        stage.__enter__()
        try:
            batch = next(self._batches)
        except BaseException:
            # Asked for a batch after the last one: what comes then, an evaluation perhaps, is no part of a step.
            stage.drop()
            raise
        stage.__exit__()
        return batch


class _Loader:
    def __init__(self, loader, stage):
        self._loader = loader
        self._stage = stage

    def __iter__(self):
        with self._stage:
            batches = iter(self._loader)
        return _Batches(batches, self._stage)

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        # An instance that is being unpickled has no loader yet.
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


def wrap_loader(loader, name="load", kind="input"):
    """An iterable with the items of `loader` that measures how long each one is waited for, as a stage.

    Fetched between two steps, a batch is a part of the step that follows. Attributes are those of `loader`
    (`wrapped.sampler.set_epoch(1)`).
    """
    return _Loader(loader, _measure.stage(name, kind=kind))
