"""What the chart's values may be is what the settings' models say."""

import yaml

from tests.docs.manifests import CHART, SCHEMA, schema_text, values_schema
from tests.docs.manifests import ROOT as CLONE


def test_the_schema_of_the_values_is_made_of_the_models() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "python -m tests.docs.manifests"


def test_every_value_has_a_default_and_is_known() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    known = values_schema()["properties"].keys() - {"global"}
    assert values.keys() == known


def test_the_chart_has_the_kind_and_the_release() -> None:
    crd = CLONE / "conf" / "kubernetes" / "consumer-groups" / "crd.yaml"
    assert (CHART / "crds" / "crd.yaml").resolve() == crd
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (CLONE / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["version"]}"' in project
    assert chart["appVersion"] == chart["version"]
