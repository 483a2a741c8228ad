"""Sentences for the person who reads the job's log."""

import functools
import logging

_MOST = 100  # a job that is wrong in another way in each step must not fill its log

_said = set()


def say_once(sentence, detail=""):
    """Logs a warning, each sentence once in the life of the process."""
    if sentence in _said or len(_said) == _MOST:
        return
    _said.add(sentence)
    logging.getLogger("laggard").warning("laggard: %s%s", sentence, f": {detail}" if detail else "")


def never_raises(sentence, otherwise=None):
    """A decorator: what is raised is said once, as `sentence` and the error, and the call gives `otherwise`."""

    def around(function):
        @functools.wraps(function)
        def guarded(*arguments, **named):
            try:
                return function(*arguments, **named)
            except Exception as error:
                say_once(sentence, f"{type(error).__name__}: {error}")
                return otherwise

        return guarded

    return around
