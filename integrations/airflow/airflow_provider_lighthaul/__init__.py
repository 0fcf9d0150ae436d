"""Provider of Airflow for files of hosts that run `lighthaul serve`."""

from __future__ import annotations

from typing import Any


def provider_info() -> dict[str, Any]:
    """Describe the provider to Airflow, which finds this by an entry point."""
    return {
        "package-name": "airflow-provider-lighthaul",
        "name": "Lighthaul",
        "description": "Files of hosts that run lighthaul serve.",
        "filesystems": ["airflow_provider_lighthaul.fs"],
    }
