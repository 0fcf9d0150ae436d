"""Snakemake storage on hosts that run `lighthaul serve`, with queries such as lh://far.example.org/results/a.csv.

Files and directories are copied as by `lighthaul cp`: verified, and resumed after a failure.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit

from lighthaul import Client, NotFound
from lighthaul.fsspec import LighthaulFileSystem
from snakemake_interface_storage_plugins.common import Operation
from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectTouch,
    StorageObjectWrite,
)
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

SETTINGS = ("key", "known_hosts", "pin", "token", "statement", "gateway", "known_paths")
"""Settings that are passed to `lighthaul.Client`."""


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):  # type: ignore[misc]
    """Settings of the provider. By default, the key and the known hosts are those of the user."""

    key: Optional[str] = field(default=None, metadata={"help": "File with the private key."})
    known_hosts: Optional[str] = field(default=None, metadata={"help": "File with the keys of daemons."})
    pin: Optional[str] = field(default=None, metadata={"help": "Key that the daemon must show (sha256:...)."})
    token: Optional[str] = field(
        default=None, metadata={"help": "Token for the daemon.", "env_var": True, "required": False}
    )
    statement: Optional[str] = field(
        default=None, metadata={"help": "File with the statement of an authority."}
    )
    gateway: Optional[str] = field(default=None, metadata={"help": "Gateway on the path, as in socks5://HOST:PORT."})
    known_paths: Optional[str] = field(default=None, metadata={"help": "File with rates that earlier copies measured."})
    rate: Optional[str] = field(
        default=None, metadata={"help": "Rate on the wire, as in 900Mb/s. By default, the path is measured."}
    )
    limit: Optional[str] = field(
        default=None, metadata={"help": 'Rate limit, as in 10M or "08:00,10M 18:00,off".'}
    )


class StorageProvider(StorageProviderBase):  # type: ignore[misc]
    """Storage provider for remote files. Requests for files of one host share a session."""

    def __post_init__(self) -> None:
        settings = self.settings
        self._options: dict[str, Any] = {name: getattr(settings, name, None) for name in SETTINGS}
        rates = {name: getattr(settings, name, None) for name in ("rate", "limit")}
        self.copy_options: dict[str, Any] = {name: value for name, value in rates.items() if value}
        self.client = Client(**self._options)
        self._hosts: dict[str, LighthaulFileSystem] = {}
        self._lock = threading.Lock()

    def files(self, query: str) -> LighthaulFileSystem:
        """Return the file system of the host of a query."""
        host = urlsplit(query).netloc
        with self._lock:
            if host not in self._hosts:
                named = LighthaulFileSystem._get_kwargs_from_urls(query)
                self._hosts[host] = LighthaulFileSystem(**named, **self._options)
            return self._hosts[host]

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        return [
            ExampleQuery("lh://far.example.org/results/a.csv", "A file on another host.", QueryType.ANY),
            ExampleQuery("lh://far.example.org:4810/data/{sample}", "Files or directories.", QueryType.ANY),
        ]

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        if not query.startswith("lh://"):
            reason = "it does not begin with lh://"
        elif not re.fullmatch(r"lh://([^/\[\]:]+|\[[0-9A-Fa-f:.%]+\])(:(\d+|\{.*\}))?/+[^/].*", query, re.DOTALL):
            reason = "it is not lh://HOST[:PORT]/PATH"
        else:
            return StorageQueryValidationResult(query=query, valid=True)
        return StorageQueryValidationResult(query=query, valid=False, reason=reason)

    def rate_limiter_key(self, query: str, operation: Operation) -> str:
        return urlsplit(query).netloc

    def default_max_requests_per_second(self) -> float:
        return 1000.0

    def use_rate_limiter(self) -> bool:
        # the daemon limits what a client may use
        return False


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob, StorageObjectTouch):  # type: ignore[misc]
    """File or directory on another host."""

    @property
    def _files(self) -> LighthaulFileSystem:
        return self.provider.files(self.query)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self._files.info(self.query)
        return info

    def local_suffix(self) -> str:
        host, _, path = self.query.removeprefix("lh://").partition("/")
        # a colon separates directories in variables such as PATH
        return f"{host.replace(':', '_')}/{path.strip('/')}"

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """List the directory of the object, once for all its objects."""
        parent = self.get_inventory_parent()
        if parent in cache.exists_in_storage:
            return
        above = self.query.rstrip("/").rpartition("/")[0] + "/"
        try:
            is_there = self._files.info(above)["type"] == "directory"
            found = self._files.ls(above, detail=True) if is_there else []
        except NotFound:
            is_there, found = False, []
        cache.exists_in_storage[parent] = is_there
        names = {}
        for info in found:
            name = self.cache_key(f"{str(Path(self.local_suffix()).parent)}/{info['name'].rpartition('/')[2]}")
            names[name] = info
        for name, info in names.items():
            # the list has neither the targets of links nor the files of subdirectories
            if info["type"] == "file":
                cache.exists_in_storage[name] = True
                cache.mtime[name] = Mtime(storage=info["mtime"])
                cache.size[name] = info["size"]
        if self.cache_key() not in names:
            cache.exists_in_storage[self.cache_key()] = False

    def get_inventory_parent(self) -> Optional[str]:
        return self.cache_key(str(Path(self.local_suffix()).parent))

    def cleanup(self) -> None:
        """Do nothing: copies leave no temporary files."""

    def exists(self) -> bool:
        try:
            self._info()
        except NotFound:
            return False
        return True

    def mtime(self) -> float:
        info = self._info()
        if info["type"] != "directory":
            return float(info["mtime"])
        # touched itself, or by what was written below
        below = self._files.find(self.query, detail=True).values()
        return max(float(one["mtime"]) for one in (info, *below))

    def size(self) -> int:
        return int(self._info()["size"])

    def local_footprint(self) -> int:
        return int(self._files.du(self.query)) if self._info()["type"] == "directory" else self.size()

    def retrieve_object(self) -> None:
        local = self.local_path()
        local.parent.mkdir(parents=True, exist_ok=True)
        # what an earlier copy of a directory has left goes
        options = {"delete": True} if self._info()["type"] == "directory" else {}
        self.provider.client.copy(
            self.query.rstrip("/"), local, exact=True, copy_links=True, **options, **self.provider.copy_options
        )

    def store_object(self) -> None:
        query, local = self.query.rstrip("/"), self.local_path()
        self._files.makedirs(query.rpartition("/")[0] + "/", exist_ok=True)
        # files of an earlier run in the directory are deleted
        options = {"delete": True} if local.is_dir() else {}
        self.provider.client.copy(
            local, query, exact=True, copy_links=True, **options, **self.provider.copy_options
        )

    def remove(self) -> None:
        self.provider.client.rm(self.query.rstrip("/"), recursive=self._info()["type"] == "directory")

    def touch(self) -> None:
        self._files.touch(self.query, truncate=False)

    def list_candidate_matches(self) -> Iterable[str]:
        """List the files below the part of the query without wildcards."""
        prefix = get_constant_prefix(self.query, strip_incomplete_parts=True)
        files = self._files
        return [files.unstrip_protocol(name) for name in files.find(prefix)]
