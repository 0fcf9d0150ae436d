"""File system of an Airflow connection.

Its host, port and password are the host and port of the daemon and the token for it. Its extra fields are further options
of `lighthaul.Client`, such as `key` and `known_hosts`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.bases.hook import BaseHook
from lighthaul.fsspec import LighthaulFileSystem

schemes = ["lh"]


def get_fs(conn_id: str | None, storage_options: dict[str, Any] | None = None) -> LighthaulFileSystem:
    """Return the file system of a connection. Options replace fields of the connection."""
    options: dict[str, Any] = {}
    if conn_id is not None:
        connection = BaseHook.get_connection(conn_id)
        fields = {"host": connection.host, "port": connection.port, "token": connection.password}
        options = connection.extra_dejson | {name: value for name, value in fields.items() if value}
    options |= storage_options or {}
    if "host" not in options:
        raise ValueError("the host is missing: write lh://CONNECTION@HOST/PATH, with a connection that has a host")
    return LighthaulFileSystem(**options)
