"""The dataset in a folder, whatever format it has."""

from __future__ import annotations

from pathlib import Path

import datasets

from . import columns
from .failures import InvalidDataset
from .settings import Settings


def load(settings: Settings) -> datasets.Dataset:
    """The split to train on; read once on each node, and from its cache by each process.

    Raises:
        InvalidDataset: It is missing or unreadable, or the method cannot train on it.
    """
    folder = Path(settings.dataset)
    if not folder.is_dir():
        raise InvalidDataset(f"{folder}: there is no such folder; the dataset initializer fills it")
    try:
        rows = datasets.load_dataset(str(folder), split=settings.dataset_train_split)
    except Exception as error:  # as many kinds as there are formats
        cause = error.__cause__ or error
        raise InvalidDataset(f"{folder} can't be read: {str(cause).partition(chr(10))[0]}") from error
    columns.check(settings, rows.column_names, rows[0] if len(rows) else None)
    return rows.select_columns(columns.kept(settings, rows.column_names))
