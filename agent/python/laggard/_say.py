"""Sentences for the person who reads the job's log."""

import logging

_said = set()


def say_once(sentence):
    """Logs a warning, each one once in the life of the process."""
    if sentence in _said:
        return
    _said.add(sentence)
    logging.getLogger("laggard").warning("laggard: %s", sentence)
