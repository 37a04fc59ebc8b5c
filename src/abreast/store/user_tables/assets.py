"""Objects beside a store: models and whatever else a column cannot hold, each kept once, named by its content.

They are pickles, and a pickle can run any code when it is loaded. Only `get` loads one.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import BadInput, StoreError
from abreast.redaction import find_secret
from abreast.store.user_tables.result_cache import warn_once

SUFFIX = ".assets"
_DIGEST = re.compile("[0-9a-f]{32}")


class Asset(NamedTuple):
    """An object as it lies on the disk."""

    digest: str
    size: int
    stored_at: float


class Assets:
    """The objects beside one store, in the folder `STORE.assets`."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + SUFFIX)

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[str]:
        return (asset.digest for asset in self.entries())

    def __contains__(self, digest: object) -> bool:
        return isinstance(digest, str) and self._path(digest) is not None

    def entries(self) -> list[Asset]:
        """Every object, the oldest first."""
        if not self.folder.is_dir():
            return []
        files = [(path.name, path.stat()) for path in self.folder.iterdir() if _DIGEST.fullmatch(path.name)]
        found = [Asset(name, status.st_size, status.st_mtime) for name, status in files]
        return sorted(found, key=lambda asset: (asset.stored_at, asset.digest))

    def put(self, value: Any) -> str | None:
        """Keep an object; its digest. None, with a warning, if it cannot be pickled or contains a secret."""
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        try:
            content = _pickled(value)
            if secret := find_secret(content):
                raise ValueError(f"it contains the value of {secret}")
        except Exception as error:  # noqa: BLE001 - whatever a user's object raises
            warn_once(f"asset {name}", f"a {name} is stored as text: it cannot be kept ({error})")
            return None
        return self.write(content)

    def write(self, content: bytes) -> str:
        """Keep a pickled object; its digest."""
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        path = self.folder / digest
        if path.is_file():
            return digest
        try:
            self.folder.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                file.write(content)
            Path(file.name).replace(path)
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be written ({error.strerror})", "check the disk") from error
        return digest

    def read(self, digest: str) -> bytes:
        """The pickle of an object. It is not loaded."""
        path = self._path(digest)
        if path is None:
            raise BadInput(f'{self.folder}: no object "{digest}"', "abreast assets ls lists them")
        return path.read_bytes()

    def get(self, digest: str) -> Any:
        """Load an object; None if it does not exist. Unpickling runs code from the store."""
        path = self._path(digest)
        return None if path is None else pickle.loads(path.read_bytes())

    def delete(self, digest: str) -> bool:
        """Remove an object; whether there was one. Rows keep its digest."""
        path = self._path(digest)
        if path is not None:
            path.unlink(missing_ok=True)
        return path is not None

    def copy(self, source: Assets, digests: Iterable[str]) -> int:
        """Take these objects over from beside another store; how many are new here."""
        new = [digest for digest in digests if digest not in self]
        for digest in new:
            self.write(source.read(digest))
        return len(new)

    def _path(self, digest: str) -> Path | None:
        path = self.folder / digest
        return path if _DIGEST.fullmatch(digest) and path.is_file() else None


def _pickled(value: Any) -> bytes:
    """With cloudpickle where it is installed: it also takes lambdas, and classes of scripts and notebooks."""
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return pickle.dumps(value, protocol=5)
    content: bytes = cloudpickle.dumps(value, protocol=5)
    return content
