"""Objects that trackers store, such as models: each is stored once, named by the digest of its content.

They are pickles, which can run any code when loaded. Only `get` loads one.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import StoreError
from abreast.redaction import find_secret
from abreast.store.user_tables.result_cache import warn_once

SUFFIX = ".assets"
_DIGEST = re.compile("[0-9a-f]{32}")


class Asset(NamedTuple):
    digest: str
    size: int
    stored_at: float


class Assets(ABC):
    """The objects of one store."""

    @abstractmethod
    def entries(self) -> list[Asset]:
        """All objects, the oldest first."""

    @abstractmethod
    def read(self, digest: str) -> bytes | None:
        """Return the pickle of an object, without loading it; None if it does not exist."""

    @abstractmethod
    def write(self, digest: str, content: bytes) -> None:
        """Store a pickled object, unless it exists."""

    @abstractmethod
    def delete(self, digest: str) -> bool:
        """Delete an object; rows keep its digest. Returns whether it existed."""

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[str]:
        return (asset.digest for asset in self.entries())

    def put(self, value: Any) -> str | None:
        """Store an object and return its digest; None, with a warning, if it cannot be pickled or contains a secret."""
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        try:
            content = _pickled(value)
            if secret := find_secret(content):
                raise ValueError(f"it contains the value of {secret}")
        except Exception as error:  # noqa: BLE001 - a user's object may raise anything
            warn_once(f"asset {name}", f"a {name} is stored as text, because it cannot be pickled ({error})")
            return None
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        self.write(digest, content)
        return digest

    def get(self, digest: str) -> Any:
        """Load an object; None if it does not exist. Unpickling runs code from the store."""
        content = self.read(digest)
        return None if content is None else pickle.loads(content)

    def copy(self, source: Assets, digests: Iterable[str]) -> None:
        """Copy these objects from another store."""
        existing = set(self)
        for digest in digests:
            content = None if digest in existing else source.read(digest)
            if content is not None:
                self.write(digest, content)


class AssetFolder(Assets):
    """The objects of a store in a file, in the folder `STORE.assets`."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + SUFFIX)

    def entries(self) -> list[Asset]:
        if not self.folder.is_dir():
            return []
        files = [(path.name, path.stat()) for path in self.folder.iterdir() if _DIGEST.fullmatch(path.name)]
        entries = [Asset(name, status.st_size, status.st_mtime) for name, status in files]
        return sorted(entries, key=lambda asset: (asset.stored_at, asset.digest))

    def read(self, digest: str) -> bytes | None:
        path = self._path(digest)
        return None if path is None else path.read_bytes()

    def write(self, digest: str, content: bytes) -> None:
        path = self.folder / digest
        if path.is_file():
            return
        try:
            self.folder.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                file.write(content)
            Path(file.name).replace(path)
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be written ({error.strerror})", "check the disk") from error

    def delete(self, digest: str) -> bool:
        path = self._path(digest)
        if path is not None:
            path.unlink(missing_ok=True)
        return path is not None

    def _path(self, digest: str) -> Path | None:
        path = self.folder / digest
        return path if _DIGEST.fullmatch(digest) and path.is_file() else None


def _pickled(value: Any) -> bytes:
    """Pickle with cloudpickle if it is installed: it supports lambdas, and classes of scripts and notebooks."""
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return pickle.dumps(value, protocol=5)
    content: bytes = cloudpickle.dumps(value, protocol=5)
    return content
