"""How the operator logs: one JSON object per line for machines, plain lines for a terminal."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

KOPF_SIGNALS: Final = "kopf._core.reactor.running"
"""Kopf's logger that warns about signals: private, see docs/adr/0026."""


class JsonFormatter(logging.Formatter):
    """One record, one line, one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(log_format: str) -> None:
    """Send all logs to stderr as `json`, `text` or `auto` (text if stderr is a terminal)."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json" or (log_format == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # Kopf warns that it cannot handle signals in a thread, which is why it is in one.
    logging.getLogger(KOPF_SIGNALS).setLevel(logging.ERROR)
