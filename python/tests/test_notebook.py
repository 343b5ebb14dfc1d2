"""docs/tour.ipynb runs from the first cell to the last."""
import pathlib

import pytest

TOUR = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tour.ipynb"


def test_tour(tmp_path):
    for module in ("torch", "matplotlib", "ipykernel"):
        pytest.importorskip(module)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(TOUR, as_version=4)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)
