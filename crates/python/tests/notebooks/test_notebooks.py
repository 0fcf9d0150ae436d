"""The notebooks of the guide, run from their beginning to their end."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[4] / "docs/src/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = Path(os.environ["LIGHTHAUL_TEST_PROGRAM"])
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}:{FOLDER}")
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), "outputs are not committed"
    # a busy host needs longer
    NotebookClient(notebook, timeout=180, kernel_name="python3").execute(cwd=str(tmp_path))
    assert all(cell.execution_count for cell in code)


def test_guide_links_each_notebook() -> None:
    guide = (FOLDER.parent / "python.md").read_text()
    assert NOTEBOOKS and all(f"(notebooks/{path.name})" in guide for path in NOTEBOOKS)
