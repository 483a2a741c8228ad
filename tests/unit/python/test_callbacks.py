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


class Base:
    """The frameworks' base class of callbacks."""


def hugging_face(**options):
    return load("huggingface", {"transformers": module_with(TrainerCallback=Base)}).LaggardCallback(**options)


def lightning():
    modules = {"lightning": module_with(), "lightning.pytorch": module_with()}
    return load("lightning", {**modules, "lightning.pytorch.callbacks": module_with(Callback=Base)}).LaggardCallback()


class Callbacks(unittest.TestCase):
    def setUp(self):
        self.library = measure_into(self)

    def calls(self):
        """What was called since the last time; [ and ] are a step's beginning and end."""
        said = ", ".join(self.library.calls).replace("step end", "]").replace("step -1", "[")
        self.library.calls.clear()
        return said

class HuggingFace(Callbacks):
    def test_a_training(self):
        callback = hugging_face(run="hf")
        self.assertIsInstance(callback, Base)
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
        batch = f"{micro}, begin load, end load"
        self.assertEqual(self.calls(), f"{batch}, {micro}, begin optimizer, end optimizer, ], begin load")
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

    def test_a_model_that_has_no_hooks(self):
        """Nothing would tell where the loading of an accumulated batch ends."""
        callback = hugging_face()
        callback.on_train_begin("args", "state", "control", model="compiled")
        for event in ("on_epoch_begin", "on_step_begin", "on_substep_end", "on_step_end"):
            getattr(callback, event)("args", "state", "control")
        self.assertEqual(self.calls(), "begin load, end load, [, ], begin load")

    def test_a_training_that_begins_again_after_a_failure(self):
        """auto_find_batch_size does so when memory was too little."""
        callback, model = hugging_face(), Module()

        def tell(event):
            getattr(callback, event)("args", "state", "control", model=model)

        for event in ("on_train_begin", "on_epoch_begin", "on_step_begin"):
            tell(event)
        model("batch")
        self.calls()
        tell("on_train_begin")
        self.assertEqual(self.calls(), "end backward, ]")
        for event in ("on_epoch_begin", "on_train_begin", "on_epoch_begin", "on_step_begin"):
            tell(event)
        self.assertEqual(self.calls(), "begin load, drop load, begin load, end load, [")
        model("batch")
        self.assertEqual(self.calls(), "begin forward, end forward, begin backward", "by the hooks of one time")
        tell("on_step_end")
        tell("on_train_end")
        self.calls()
        model("afterwards")
        self.assertEqual(self.calls(), "")


class Lightning(Callbacks):
    def setUp(self):
        super().setUp()
        self.callback = lightning()
        self.trainer = types.SimpleNamespace(global_step=0)

    def begin(self):
        self.tell("on_train_start")
        self.tell("on_train_epoch_start")

    def tell(self, event, *more):
        getattr(self.callback, event)(self.trainer, "module", *more)

    def batch(self, accumulates=False):
        self.tell("on_train_batch_start", "batch", 0)
        self.tell("on_before_backward", "loss")
        self.tell("on_after_backward")
        if not accumulates:
            self.tell("on_before_optimizer_step", "optimizer")
            self.trainer.global_step += 1
        self.tell("on_train_batch_end", "outputs", "batch", 0)

    def test_a_training(self):
        self.assertIsInstance(self.callback, Base)
        self.tell("on_validation_start")
        self.tell("on_validation_end")
        self.begin()
        self.assertEqual(self.calls(), "begin load")
        micro = "begin forward, end forward, begin backward, end backward"
        self.batch(accumulates=True)
        self.assertEqual(self.calls(), f"end load, [, {micro}, begin load")
        self.batch()
        self.assertEqual(self.calls(), f"end load, {micro}, begin optimizer, end optimizer, ], begin load")
        self.tell("on_validation_start")
        self.tell("on_validation_end")
        self.tell("on_train_epoch_end")
        self.tell("on_train_end")
        self.assertEqual(self.calls(), "drop load, begin load, drop load, end 2000")

    def test_the_trainer_knows_the_rank(self):
        self.begin()
        self.assertEqual((self.library.options.otherwise_rank, self.library.options.otherwise_world_size), (-1, 0))
        self.tell("on_train_end")
        self.trainer.global_rank, self.trainer.world_size = 3, 4
        self.begin()
        self.assertEqual((self.library.options.otherwise_rank, self.library.options.otherwise_world_size), (3, 4))

    def test_a_checkpoint_is_no_loading(self):
        """The callbacks that save come after all others, and after them only the next batch tells of itself."""
        self.begin()
        self.batch()
        self.calls()
        self.tell("on_save_checkpoint", {})
        self.assertEqual(self.calls(), "tag checkpoint, drop load")
        self.tell("on_save_checkpoint", {})
        self.assertEqual(self.calls(), "", "nothing is measured that it could be in")
        self.batch(accumulates=True)
        self.assertRegex(self.calls(), r"^\[, begin forward, .*begin load$")
        self.tell("on_save_checkpoint", {})
        self.assertEqual(self.calls(), "tag checkpoint, drop load")
        self.batch()
        self.assertRegex(self.calls(), r"^begin forward, .*\], begin load$")

    def test_a_validation_inside_a_step(self):
        self.begin()
        self.batch(accumulates=True)
        self.calls()
        self.tell("on_validation_start")
        self.tell("on_validation_end")
        self.assertEqual(self.calls(), "tag eval, drop load, begin load")
        self.batch()
        self.calls()
        self.tell("on_validation_start")
        self.assertEqual(self.calls(), "drop load", "between two steps it is in none")

    def test_a_training_that_begins_again_after_a_failure(self):
        for told in (True, False):
            self.begin()
            self.tell("on_train_batch_start", "batch", 0)
            self.calls()
            if told:
                self.tell("on_exception", KeyboardInterrupt())
                self.assertEqual(self.calls(), "end forward, ]")
                self.tell("on_validation_end")
                self.assertEqual(self.calls(), "", "the one before the first epoch")
            self.tell("on_train_start")
            self.assertEqual(self.calls(), "" if told else "end forward, ]")
            self.tell("on_train_epoch_start")
            self.batch()
            self.assertRegex(self.calls(), r"^begin load, end load, \[, begin forward")
            self.tell("on_train_end")
            self.tell("on_validation_end")
            self.assertEqual(self.calls(), "drop load, end 2000", "and no loading before the next training")

    def test_version_1_hands_its_hooks_more(self):
        self.begin()
        self.tell("on_train_batch_start", "batch", 0, 0)
        self.tell("on_before_optimizer_step", "optimizer", 0)
        self.trainer.global_step += 1
        self.tell("on_train_batch_end", "outputs", "batch", 0, 0)
        self.tell("on_train_epoch_end", "outputs")
        self.assertRegex(self.calls(), "begin optimizer, end optimizer, ], begin load, drop load$")

    def test_under_its_older_name(self):
        older = module_with(Callback=Base)
        modules = {"lightning": None, "pytorch_lightning": module_with(), "pytorch_lightning.callbacks": older}
        self.assertIsInstance(load("lightning", modules).LaggardCallback(), Base)


class Accelerate(Callbacks):
    def test_a_training(self):
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
