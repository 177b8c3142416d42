"""What we use of a library without its leave is still there: docs/adr/0026."""

import importlib
import logging

from trainyard_operator import logs


def test_kopf_warns_about_signals_with_the_logger_that_is_silenced() -> None:
    module = importlib.import_module(logs.KOPF_SIGNALS)
    assert isinstance(module.logger, logging.Logger)
    assert module.logger.name == logs.KOPF_SIGNALS
