"""The Snakemake storage plugin: Snakemake's conformance tests, and a workflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest
from snakemake_interface_storage_plugins.registry import StoragePluginRegistry
from snakemake_interface_storage_plugins.tests import TestStorageBase

from conftest import Far
from snakemake_storage_plugin_lighthaul import StorageProvider, StorageProviderSettings


class TestStorage(TestStorageBase):  # type: ignore[misc]
    __test__ = True
    files_only = False
    touch = True
    far: ClassVar[Far]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _daemon(cls, far: Far) -> None:
        cls.far = far

    def get_storage_provider_cls(self) -> type[StorageProvider]:
        return StorageProvider

    def get_storage_provider_settings(self) -> StorageProviderSettings:
        return StorageProviderSettings(**self.far.settings)

    def get_query(self, tmp_path: Path) -> str:
        return self.far.place(f"storage/{tmp_path.name}/a b.txt")

    def get_query_not_existing(self, tmp_path: Path) -> str:
        return self.far.place(f"absent/{uuid4()}")


def provider(far: Far, folder: Path) -> StorageProvider:
    import logging

    return StorageProvider(
        logger=logging.getLogger(), local_prefix=folder, settings=StorageProviderSettings(**far.settings)
    )


def test_snakemake_finds_the_plugin() -> None:
    plugin = StoragePluginRegistry().get_plugin("lighthaul")
    assert plugin.storage_provider is StorageProvider
    assert plugin._storage_settings_cls is StorageProviderSettings


@pytest.mark.parametrize(
    ("query", "valid"),
    [
        ("lh://far/a", True),
        ("lh://far:4810/{sample}/b", True),
        ("lh://[::1]:4810/a", True),
        ("lh://far", False),
        ("lh://far/", False),
        ("lh:///a", False),
        ("lh://far:port/a", False),
        ("sftp://far/a", False),
        ("a", False),
    ],
)
def test_queries_are_checked(query: str, valid: bool) -> None:
    result = StorageProvider.is_valid_query(query)
    assert bool(result) == valid and bool(result.reason) != valid


def test_directory_is_replaced_as_a_whole(far: Far, tmp_path: Path) -> None:
    stored = provider(far, tmp_path / "one").object(far.place("whole/results"))
    local = stored.local_path()
    local.mkdir(parents=True)
    (local / "old.txt").write_text("old")
    stored.store_object()
    (local / "old.txt").rename(local / "new.txt")
    stored.store_object()
    assert os.listdir(far.root / "whole/results") == ["new.txt"]
    again = provider(far, tmp_path / "two").object(far.place("whole/results"))
    assert again.local_footprint() == 3 and again.size() == 0
    again.retrieve_object()
    assert (again.local_path() / "new.txt").read_text() == "old"


def test_candidates_of_wildcards_are_files(far: Far, tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/2.txt", "b/1.csv"):
        (far.root / "wild" / name).parent.mkdir(parents=True, exist_ok=True)
        (far.root / "wild" / name).write_text(name)
    found = provider(far, tmp_path).object(far.place("wild/{letter}/{nth}.txt")).list_candidate_matches()
    assert sorted(found) == [far.place(f"wild/{name}") for name in ("a/1.txt", "a/2.txt", "b/1.csv")]


WORKFLOW = """
storage lh:
    provider="lighthaul",
    key="{key}", pin="{pin}", known_paths="{known_paths}"

samples, = glob_wildcards(storage.lh("{place}in/{{sample}}.txt"))

rule all:
    input: storage.lh("{place}out/sum.txt")

rule count:
    input: storage.lh("{place}in/{{sample}}.txt")
    output: storage.lh("{place}out/{{sample}}.count")
    shell: "wc -c < {{input}} > {{output}}"

rule sum:
    input: storage.lh(expand("{place}out/{{sample}}.count", sample=samples))
    output: storage.lh("{place}out/sum.txt")
    shell: "awk '{{{{sum += $1}}}} END {{{{print sum}}}}' {{input}} > {{output}}"
"""


def test_workflow_reads_and_writes_there(far: Far, tmp_path: Path) -> None:
    source = far.root / "flow/in"
    source.mkdir(parents=True)
    for nth, name in enumerate("abc"):
        (source / f"{name}.txt").write_bytes(b"x" * (nth + 1))
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(place=far.place("flow/"), **far.settings))

    def run() -> str:
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run()
    assert (far.root / "flow/out/sum.txt").read_text().strip() == "6"
    assert "Nothing to be done" in run()
    # a changed source causes its results to be computed again
    (source / "b.txt").write_bytes(b"x" * 20)
    run()
    assert (far.root / "flow/out/sum.txt").read_text().strip() == "24"
