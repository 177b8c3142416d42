"""What renovate is told finds every image of the catalog; renovate itself is not run here."""

import json
import re
from pathlib import Path

from trainyard_platform.catalog import images as catalog_images

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "0" * 64

of_digests, of_tags = (
    {
        "files": re.compile(manager["managerFilePatterns"][0].strip("/")),
        # JavaScript's named groups, as Python writes them.
        "text": re.compile(manager["matchStrings"][0].replace("(?<", "(?P<").replace("(?P<=", "(?<=")),
        "result": manager.get("autoReplaceStringTemplate"),
    }
    for manager in json.loads((ROOT / ".github" / "renovate.json").read_text())["customManagers"]
)


def texts(manager: dict[str, re.Pattern[str]]) -> list[str]:
    paths = sorted((ROOT / "runtimes").rglob("*.yaml"))
    return [path.read_text() for path in paths if manager["files"].search(str(path.relative_to(ROOT)))]


def found(manager: dict[str, re.Pattern[str]]) -> set[str]:
    matches = [match for text in texts(manager) for match in manager["text"].finditer(text)]
    return {f"{match['depName']}:{match['currentValue']}" for match in matches}


def test_it_finds_each_image_in_the_file_of_digests_and_in_the_catalogs_files() -> None:
    pins = set(catalog_images.load(ROOT / "runtimes"))
    assert (found(of_digests), pins - found(of_tags)) == (pins, set())


def test_what_it_writes_is_read_back(tmp_path: Path) -> None:
    [text] = texts(of_digests)
    first = of_digests["text"].search(text)
    assert first is not None
    written = (
        of_digests["result"]
        .replace("{{{depName}}}", first["depName"])
        .replace("{{{newValue}}}", "2.0")
        .replace("{{{newDigest}}}", DIGEST)
    )
    (tmp_path / catalog_images.FILE).write_text(text.replace(first[0], written))
    pin = catalog_images.load(tmp_path)[f"{first['depName']}:2.0"]
    assert (pin.tag, pin.digest) == ("2.0", DIGEST)
