"""What notebooks get: simulated trainings, exchanges step by step, and their pictures.

    python3 tests/python/notebook_test.py
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree

import starling


def error_of(action) -> str:
    try:
        action()
    except starling.Error as error:
        return str(error)
    return "no error"


def test_imports_neither_torch_nor_numpy():
    code = "import sys, starling; starling.simulate; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pairwise_sends_less_than_a_ring():
    picture = starling.simulate(["horovod", "pairwise"], [4, 8], bandwidth="100mbit", steps=20)
    rows = {(row["system"], row["workers"]): row for row in picture.rows}
    assert list(rows) == [("horovod", 4), ("horovod", 8), ("pairwise", 4), ("pairwise", 8)]
    for workers in (4, 8):
        ring, pairs = rows["horovod", workers], rows["pairwise", workers]
        assert ring["batches"] == pairs["batches"] == 20 * workers
        # 2 (n-1)/n of the model a worker and step, and one model, with what frames take.
        exact = 20 * workers * 400_000 * 2 * (workers - 1) / workers
        assert exact <= ring["bytes_sent"] < 1.3 * exact
        assert pairs["bytes_sent"] < ring["bytes_sent"]
        assert ring["error"] < 0.5


def test_a_simulation_takes_settings():
    often, seldom = (
        starling.simulate("pairwise", 4, parameters=1000, steps=64, period=period).rows[0]
        for period in (1, 16)
    )
    assert seldom["bytes_sent"] < often["bytes_sent"] / 4
    assert starling.simulate("distbelief", 2, parameters=100, steps=5).rows[0]["servers"] == 2


def test_a_ring_adds_up_in_so_many_iterations():
    picture = starling.explain("ring", 4)
    last = max(row["iteration"] for row in picture.rows)
    assert last == 2 * (4 - 1)
    for row in picture.rows:
        if row["iteration"] == last:
            assert row["value"] == (row["cell"] + 1) * (1 + 2 + 3 + 4)


def test_pairs_come_to_their_mean():
    picture = starling.explain("pairwise", values=[[1], [5], [9]], rounds=1)
    after = [row["value"] for row in picture.rows if row["iteration"] == 1]
    assert after == [5, 3, 7]


def test_pictures_are_well_formed_and_tables_are_frames():
    import pandas

    for picture in (starling.simulate(steps=3), starling.explain("tree", 3), starling.systems()):
        markup = picture._repr_html_()
        xml.etree.ElementTree.fromstring(f"<html>{markup}</html>")
        assert isinstance(picture.table, pandas.DataFrame) and len(picture.table) == len(picture.rows)
        assert repr(picture)
    assert "<svg" in starling.simulate(steps=3)._repr_html_()


def test_errors_name_what_is_wrong():
    assert "parwise" in error_of(lambda: starling.simulate("parwise"))
    assert "perid" in error_of(lambda: starling.simulate("pairwise", perid=3))
    assert "fast" in error_of(lambda: starling.simulate(bandwidth="fast"))
    assert "slices" in error_of(lambda: starling.simulate("gpipe", 2))
    assert "rign" in error_of(lambda: starling.explain("rign"))
    assert "same number" in error_of(lambda: starling.explain("ring", values=[[1, 2], [3]]))
    assert "workers" in error_of(lambda: starling.explain("pairwise", 2, passes=5))


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")
