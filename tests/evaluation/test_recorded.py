"""A recorded stream from its file."""

from pathlib import Path

import pytest

from autoscaler.evaluation.trace_reader import read_stream

HEAD = "iteration,topic,partition,rate\n"


def test_partitions_stand_by_name_and_the_listing_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "stream.csv"
    file.write_text(HEAD + "0,b,0,3\n0,a,1,2\n0,a,0,1\n1,a,0,4\n1,b,0,6\n1,a,1,5\n", encoding="utf-8")
    found = read_stream(file)
    assert found.rates.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found.listed.tolist() == [[2, 1, 0], [0, 2, 1]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("iteration,topic,rate\n", "no column partition"),
        (HEAD, "every iteration"),
        (HEAD + "0,a,0,1\n0,a,1,1\n1,a,0,1\n", "all of the 2"),
    ],
    ids=["column", "empty", "hole"],
)
def test_a_file_that_is_no_stream_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "stream.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        read_stream(file)
