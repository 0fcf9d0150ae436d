"""Airflow provider for files on hosts that run `lighthaul serve`."""

from __future__ import annotations

from typing import Any


def provider_info() -> dict[str, Any]:
    """Describe the provider to Airflow, which finds this function by an entry point."""
    return {
        "package-name": "airflow-provider-lighthaul",
        "name": "Lighthaul",
        "description": "Files on hosts that run lighthaul serve.",
        "filesystems": ["airflow_provider_lighthaul.fs"],
    }
