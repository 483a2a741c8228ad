"""The callbacks, called in the order in which their frameworks do; base classes stand in for those."""

import importlib
import sys
import types
import unittest
from unittest import mock

from fake_library import measure_into

import laggard


class Module:
    """The hooks of torch.nn.Module that are used."""

    training = True

    def __init__(self):
        self._before, self._after = [], []

    def register_forward_pre_hook(self, hook):
        self._before.append(hook)
        return types.SimpleNamespace(remove=lambda: self._before.remove(hook))

    def register_forward_hook(self, hook):
        self._after.append(hook)
        return types.SimpleNamespace(remove=lambda: self._after.remove(hook))

    def __call__(self, batch):
        for hook in list(self._before):
            hook(self, (batch,))
        for hook in list(self._after):
            hook(self, (batch,), batch)
        return batch


def module_with(**members):
    module = types.ModuleType("stand_in")
    module.__dict__.update(members)
    return module


def load(name, modules):
    """The package's module of this name, with the framework's modules standing in."""
    sys.modules.pop(f"laggard.{name}", None)
    with mock.patch.dict(sys.modules, modules):
        module = importlib.import_module(f"laggard.{name}")
    sys.modules.pop(f"laggard.{name}", None)
    return module


class Callbacks(unittest.TestCase):
    def setUp(self):
        self.library = measure_into(self)

    def calls(self):
        """What was called since the last time; [ and ] are a step's beginning and end."""
        said = ", ".join(self.library.calls).replace("step end", "]").replace("step -1", "[")
        self.library.calls.clear()
        return said

    def test_hugging_face(self):
        base = type("TrainerCallback", (), {})
        callback = load("huggingface", {"transformers": module_with(TrainerCallback=base)}).LaggardCallback(run="hf")
        self.assertIsInstance(callback, base)
        model = Module()

        def tell(event, **more):
            getattr(callback, event)("args", "state", "control", model=model, **more)

        tell("on_train_begin")
        self.assertEqual(self.library.options.run, b"hf")
        tell("on_epoch_begin")
        tell("on_step_begin")
        self.assertEqual(self.calls(), "begin load, end load, [")
        model("batch")
        tell("on_substep_end")
        model("batch")
        tell("on_pre_optimizer_step")
        tell("on_optimizer_step")
        tell("on_step_end")
        micro = "begin forward, end forward, begin backward, end backward"
        self.assertEqual(self.calls(), f"{micro}, {micro}, begin optimizer, end optimizer, ], begin load")
        tell("on_log")
        tell("on_evaluate")
        model.training = False
        model("evaluation")
        model.training = True
        tell("on_save")
        self.assertEqual(self.calls(), "drop load, begin load, drop load, begin load, drop load, begin load")
        tell("on_epoch_end")
        tell("on_epoch_begin")
        tell("on_step_begin")
        model("batch")
        tell("on_step_end")
        self.assertIn("end backward, ]", self.calls(), "of a version without the optimizer's moments")
        tell("on_epoch_end")
        tell("on_train_end")
        self.assertEqual(self.calls(), "drop load, end 2000")
        model("afterwards")
        self.assertEqual(self.calls(), "")

    def test_lightning(self):
        base = type("Callback", (), {})
        modules = {"lightning": module_with(), "lightning.pytorch": module_with()}
        callback = load("lightning", {**modules, "lightning.pytorch.callbacks": module_with(Callback=base)}).LaggardCallback()
        self.assertIsInstance(callback, base)
        trainer = types.SimpleNamespace(global_step=0)

        def tell(event, *more):
            getattr(callback, event)(trainer, "module", *more)

        def batch(accumulates):
            tell("on_train_batch_start", "batch", 0)
            tell("on_before_backward", "loss")
            tell("on_after_backward")
            if not accumulates:
                tell("on_before_optimizer_step", "optimizer")
                trainer.global_step += 1
            tell("on_train_batch_end", "outputs", "batch", 0)

        tell("on_validation_start")
        tell("on_validation_end")
        tell("on_train_start")
        tell("on_train_epoch_start")
        self.assertEqual(self.calls(), "begin load")
        micro = "begin forward, end forward, begin backward, end backward"
        batch(accumulates=True)
        self.assertEqual(self.calls(), f"end load, [, {micro}, begin load")
        batch(accumulates=False)
        self.assertEqual(self.calls(), f"end load, {micro}, begin optimizer, end optimizer, ], begin load")
        tell("on_validation_start")
        tell("on_validation_end")
        tell("on_train_epoch_end")
        tell("on_train_end")
        self.assertEqual(self.calls(), "drop load, begin load, drop load, end 2000")

    def test_lightning_under_its_older_name(self):
        base = type("Callback", (), {})
        older = module_with(Callback=base)
        modules = {"lightning": None, "pytorch_lightning": module_with(), "pytorch_lightning.callbacks": older}
        self.assertIsInstance(load("lightning", modules).LaggardCallback(), base)

    def test_accelerate(self):
        accelerator = types.SimpleNamespace(sync_gradients=True, backward=lambda loss, **more: (loss, more))
        optimizer = types.SimpleNamespace(step=lambda: "stepped")
        model = Module()
        laggard.init()
        load("accelerate", {}).measure(accelerator, model, optimizer)
        for accumulates in (True, False):
            accelerator.sync_gradients = not accumulates
            model("batch")
            self.assertEqual(accelerator.backward("loss", retain_graph=True), ("loss", {"retain_graph": True}))
            self.assertEqual(optimizer.step(), "stepped")
        micro = "begin forward, end forward, begin backward, end backward"
        self.assertEqual(self.calls(), f"[, {micro}, {micro}, begin optimizer, end optimizer, ]")


if __name__ == "__main__":
    unittest.main()
