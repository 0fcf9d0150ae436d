"""Results, and types of arguments."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

Place: TypeAlias = str | os.PathLike[str]
"""PATH, HOST:PATH or lh://HOST[:PORT]/PATH. An os.PathLike is always a path on this host."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a copy."""

    done: int
    """Bytes that have arrived."""
    total: int
    """Bytes that are requested so far. It grows while directories are listed."""
    entries: int
    """Entries that are in place."""
    packets: int
    """Packets sent, with repetitions."""
    resent: int
    """Packets sent again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Entry that failed."""

    path: str
    """Path; empty if the failure concerns several entries."""
    code: int
    """Exit status of the command for this failure."""
    reason: str
    """Reason."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Result of a copy."""

    entries: int
    """Files, directories and links in place."""
    bytes: int
    """Bytes of the files."""
    unchanged: int
    """Entries that were in place before."""
    elapsed: float
    """Seconds from the start of the copy to its end."""
    progress: Progress
    """Progress at the end."""
    failures: tuple[Failure, ...]
    """Entries that failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a copy would do."""

    bytes: int
    """Bytes that would be sent."""
    entries: int
    """Entries that would be created or replaced."""
    changes: int
    """Entries of which only the metadata would be changed."""
    deletions: int
    """Entries that would be deleted."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Item of a file system."""

    path: str
    """Path below the listed directory, or the path of the request."""
    kind: Literal["file", "directory", "link", "other"]
    """Kind of the item."""
    size: int
    """Size in bytes."""
    mode: int
    """Permission bits."""
    uid: int
    """User ID of the owner."""
    gid: int
    """Group ID."""
    mtime_ns: int
    """Modification time in nanoseconds since 1970."""
    target: str | None = None
    """Target of a symbolic link."""

    @property
    def mtime(self) -> float:
        """Modification time in seconds since 1970."""
        return self.mtime_ns / 1e9

    @property
    def is_dir(self) -> bool:
        """True for a directory."""
        return self.kind == "directory"


@dataclass(frozen=True, slots=True)
class Usage:
    """Space that a place takes."""

    bytes: int
    """Bytes of all files."""
    files: int
    """Number of files, links and other items."""
    directories: int
    """Number of directories below the place."""


OnProgress: TypeAlias = Callable[[Progress], object]
"""Function that is called with the progress, at most twenty times a second."""


class CopyOptions(TypedDict, total=False):
    """Options of a copy, as those of `lighthaul cp`. Each has the default of the command."""

    rate: int | str | None
    """Rate on the wire, in bits a second or as in "900Mb/s"; None to measure the path."""
    limit: str | None
    """Rate limit, as in "10M" or "08:00,10M 18:00,off"."""
    protocol: str | None
    """Transport: "auto", "rbudp", "tcp", ..."""
    retries: int
    """Number of further attempts after failures of the network."""
    stop_at: datetime.datetime | None
    """Time at which the copy ends, whether it is complete or not."""
    stall_timeout: float | None
    """Longest silence of the other side, in seconds."""
    plain: bool
    """Do not encrypt data packets. The other side must agree."""
    no_udp: bool
    """Carry the data by TCP even where UDP passes."""
    exact: bool
    """Treat the target as the new name of the source."""
    files: Iterable[Place] | None
    """Paths to copy, relative to the only source."""
    include: Iterable[str]
    """Patterns of rsync, which come before those of `exclude`."""
    exclude: Iterable[str]
    """Patterns of rsync for entries that are not copied."""
    delete: bool
    """Delete what the source does not have. No question is asked."""
    max_delete: int | None
    """Largest number of items that are deleted."""
    update: bool
    """Keep files that are newer at the target."""
    checksum: bool
    """Compare files by digest, not by size and time."""
    archive: bool
    """Preserve owners and groups, too."""
    hard_links: bool
    """Preserve hard links."""
    xattrs: bool
    """Preserve extended attributes."""
    acls: bool
    """Preserve access control lists."""
    atimes: bool
    """Preserve access times."""
    sparse: bool
    """Write no zeros, in any file."""
    copy_links: bool
    """Copy the targets of symbolic links."""
    one_file_system: bool
    """Stay on the file system of each source."""
    remove_source_files: bool
    """Remove files at the source when they are in place at the target."""
    inplace: bool
    """Write files under their own names."""
    verify: Literal["transfer", "disk", "none"]
    """Verification of each file."""
    digest: Literal["crc128", "blake3"] | None
    """Digest of each file."""
    delta: Literal["auto", "always", "never"]
    """Files of which only the changes are sent."""
