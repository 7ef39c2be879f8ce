"""What installing gives: the jars, a Spark session with Delta, and the rule that skips are seen."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoscaler import jars
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]


def test_spark_reads_what_it_wrote_to_delta(spark: "SparkSession", tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(table)
    spark.range(2).write.format("delta").mode("append").save(table)
    assert sorted(r.id for r in spark.read.format("delta").load(table).collect()) == [0, 0, 1, 1, 2]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`")
    assert history.count() == 2


def test_the_delta_jars_hold_nothing_that_spark_ships(java: str) -> None:
    shipped = jars._shipped(jars.spark_home())
    assert "hadoop-client-api" in shipped
    assert "scala-library" in shipped
    fetched = [jar.name for jar in jars.fetch(jars.DELTA).glob("*.jar")]
    assert fetched
    assert not [jar for jar in fetched if jar.rsplit("-", 1)[0] in shipped]


def test_a_failed_download_says_what_to_do_and_leaves_nothing_half_done(
    java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOSCALER_IVY_SETTINGS", str(tmp_path / "absent.xml"))
    assert jars.main(["kafka"]) == 1
    said = capsys.readouterr().err
    assert "What to do" in said
    assert "AUTOSCALER_IVY_SETTINGS" in said
    assert not jars.directory(jars.KAFKA).exists()
    assert [p.name for p in jars.cache_root().iterdir() if p.name.startswith(".")] == []


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(Exception, match="set XDG_CACHE_HOME"):
        jars.fetch(jars.KAFKA)


def test_a_missing_java_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SettingsError, match="make java"):
        jars.java()


def a_java(place: Path, script: str) -> Path:
    java = place / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'openjdk version \"11.0.20\" 2023-07-18' >&2", "is version 11.0.20; `make java` says"),
        ("echo 'java version \"1.8.0_392\"' >&2", "is version 1.8.0_392"),
        ("exit 3", "cannot be run (exit code 3)"),
    ],
)
def test_a_java_that_is_too_old_or_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    """Otherwise the job would be started again and again."""
    java = a_java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError) as e:
        jars.java()
    assert f"java: {java} {says}" in str(e.value)


def test_a_java_new_enough_is_taken_and_not_run_where_its_directory_tells_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = a_java(tmp_path, "exit 3")
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"\n', encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.java() == str(java)


@pytest.mark.parametrize(
    ("skip", "passes"),
    [
        pytest.param("no Java here", False, id="a missing tool is a failure"),
        pytest.param("optional data: traces are not here", True, id="optional data may be absent"),
    ],
)
def test_no_skips_turns_a_skip_into_a_failure(tmp_path: Path, skip: str, *, passes: bool) -> None:
    text = f"""\
        import pytest

        @pytest.mark.skip(reason={skip!r})
        def test_marked() -> None:
            pass

        def test_inside() -> None:
            pytest.skip({skip!r})
        """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(text), encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command = [*pytest_here, "--no-skips", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if passes else 1), done.stdout
    assert ("2 skipped" in done.stdout) == passes
    assert ("1 failed, 1 error" in done.stdout) != passes  # a mark fails before the test runs, a call inside it
