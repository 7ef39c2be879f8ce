"""The documentation as a whole: its links, and that reference pages name what the code has."""

import argparse
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AclOperation

from autoscaler.adapters.audit.cycle_log import DECIDED, cycle_record
from autoscaler.adapters.audit.views import VIEWS
from autoscaler.cli.main import _parser
from autoscaler.config.settings import Settings, load
from autoscaler.errors import Exit
from tests.docs import settings_page
from tests.kafka.permissions import CLUSTER, DESCRIBE, GROUP, TOPIC, TRANSACTION, Grant
from tests.kafka.test_advise_permissions import of_adviser
from tests.kafka.whole_step import of_job, of_worker

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))])
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
README_LINES = 150
QUESTIONS = 20
OWN_WORDS = 15
ASKING = frozenset(
    {"each", "from", "have", "into", "many", "mine", "much", "than", "that", "they", "this", "what", "when", "with"}
)


def prose(page: Path) -> str:
    """Return a page without its blocks of code, in which nothing is a link or a heading."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as the site and code hosts make it."""
    text = unicodedata.normalize("NFKD", re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


def section(page: Path, anchor: str) -> str:
    """Return what stands below a heading, the headings below it included, up to the next one of its rank."""
    text = prose(page)
    heading = next(h for h in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE) if anchor_of(h[2]) == anchor)
    return re.split(rf"^#{{1,{len(heading[1])}}} ", text[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_and_anchor_resolves(page: Path) -> None:
    broken = []
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"https?:|mailto:", target):
            continue
        to = (page.parent / path).resolve() if path else page
        outside = page.is_relative_to(DOCS) and not to.is_relative_to(DOCS)  # the site has nothing else
        if not to.is_file() or outside or (anchor and anchor not in anchors(to)):
            broken.append(target)
    assert broken == []


def test_pages_that_code_and_settings_name_are_there() -> None:
    files = [
        *(ROOT / "autoscaler").rglob("*.py"),
        *(ROOT / "jobs").glob("*.py"),
        *(f for f in (ROOT / "conf").rglob("*") if f.is_file()),
    ]
    said = {page for f in files for page in re.findall(r"docs/[\w/-]+\.md", f.read_text(encoding="utf-8"))}
    assert said
    assert [page for page in sorted(said) if not (ROOT / page).is_file()] == []


def test_the_settings_page_is_what_the_schema_says() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), "python -m tests.docs.settings_page"


def subcommands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield name.strip(), parser
    for action in inner:
        for word, below in action.choices.items():
            yield from subcommands(below, f"{name} {word}")


def test_the_page_of_commands_names_each_with_its_arguments() -> None:
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    for name, parser in subcommands(_parser()):
        (row,) = [said for said in rows if re.match(rf"{name}\b", said)]
        for action in parser._actions:
            word = action.option_strings[-1] if action.option_strings else str(action.metavar)
            assert word in row or word == "--help", (name, word)


def test_exit_codes_stand_in_one_place_and_on_their_page() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {0, *Exit}
    files = [f for f in (ROOT / "autoscaler").rglob("*.py") if f.name != "errors.py"] + [*(ROOT / "jobs").glob("*.py")]
    elsewhere = re.compile(r"^EXIT_\w+ = \d|(?:return|exit\(|exit_code =) (?:7[0-9]|130)\b", re.MULTILINE)
    assert [f.name for f in files if elsewhere.search(f.read_text(encoding="utf-8"))] == []
    script = (ROOT / "spark-submit.sh").read_text(encoding="utf-8")
    assert f"readonly SETTINGS={Exit.SETTINGS:d} FENCED={Exit.FENCED:d} UNWRITTEN={Exit.UNWRITTEN:d}\n" in script


def test_the_page_of_metrics_names_every_field_of_a_cycle() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    fields = re.findall(r'^        "(\w+)":', inspect.getsource(cycle_record), re.MULTILINE)
    assert len(fields) > len("a handful")
    assert [f for f in (*fields, *DECIDED) if f"`{f}`" not in page] == []


def test_the_page_of_views_has_a_row_for_each() -> None:
    page = (DOCS / "reference" / "views.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(VIEWS)


def test_every_decision_is_listed() -> None:
    page = (DOCS / "design" / "decisions.md").read_text(encoding="utf-8")
    assert [p.name for p in sorted((DOCS / "decisions").glob("*.md")) if f"../decisions/{p.name}" not in page] == []


def questions() -> list[tuple[str, list[str]]]:
    """Return the questions of the first page, each with the links that answer it."""
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = page.split("## Find an answer")[1].split("\n## ")[0].splitlines()
    cells = [row.strip("| ").split(" | ") for row in rows if row.startswith("| ")][1:]
    return [(question, LINK.findall(answer)) for question, answer in cells]


def stems(text: str) -> set[str]:
    """Return how the words of a text begin, without those that any question has, and without where its links go."""
    return {w[:4].lower() for w in re.findall(r"[A-Za-z]{4,}", LINK.sub("]", text)) if w.lower() not in ASKING}


def test_the_first_page_has_twenty_questions_and_each_a_link_to_a_heading() -> None:
    assert len(questions()) >= QUESTIONS
    assert [q for q, links in questions() if not links or not all("#" in link for link in links)] == []


@pytest.mark.parametrize(("question", "links"), questions(), ids=lambda x: anchor_of(x)[:40] if isinstance(x, str) else "")
def test_the_heading_that_a_question_leads_to_answers_it_at_once(question: str, links: list[str]) -> None:
    """Each section has text of its own, not only links; together, with their pages' titles, they speak of what is asked."""
    found = []
    for link in links:
        name, _, anchor = link.partition("#")
        page = DOCS / name
        text = section(page, anchor)
        assert len(re.sub(r"\[[^]]*\]\([^)]*\)", "", text).split()) >= OWN_WORDS, f"{link} answers with next to nothing"
        assert not text.lstrip().startswith("#"), f"{link} is a heading over another one"
        found.append(f"{prose(page).splitlines()[0]} {anchor.replace('-', ' ')} {text}")
    asked = stems(question)
    assert len(asked & stems(" ".join(found))) >= len(asked) / 2, f"{links} speak of other things"


def test_questions_with_each_others_answers_would_be_noticed() -> None:
    asked = questions()
    wrong = 0
    for (question, _), (_, links) in zip(asked, [*asked[7:], *asked[:7]], strict=True):
        try:
            test_the_heading_that_a_question_leads_to_answers_it_at_once(question, links)
        except AssertionError:
            wrong += 1
    assert wrong > len(asked) / 2


def test_pages_say_who_acts() -> None:
    vague = re.compile(r"\b(nobody|no one|somebody|someone|anybody|anyone|everybody|everyone|whoever|whomever)\b", re.IGNORECASE)
    said = {page.name: vague.findall(re.sub(r"`[^`]*`", "", prose(page))) for page in PAGES}
    assert {name: words for name, words in said.items() if words} == {}


def test_the_glossary_is_in_order_and_names_each_term_once() -> None:
    page = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", page, re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_the_words_by_which_a_symptom_is_looked_up_are_those_that_the_code_says() -> None:
    """A quotation is cut where a value stands in it: at dots and at numbers."""
    page = (DOCS / "tasks" / "troubleshoot.md").read_text(encoding="utf-8")
    code = "\n".join(f.read_text(encoding="utf-8") for f in sorted((ROOT / "autoscaler").rglob("*.py")))
    code = re.sub(r"\"\s*\n\s*f?\"", "", code).replace("{s[assignment]}", "assignment")
    quoted = [q for row in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) for q in re.findall(r'"([^"]+)"', row)]
    pieces = [piece.strip(" ,:'") for q in quoted for piece in re.split(r"…|\b\w*\d\w*\b|%|\beast\b", q)]
    assert len(quoted) > len("a dozen")
    assert [piece for piece in pieces if len(piece.split()) > 1 and piece not in code] == []


GRANTED = re.compile(r"--(operation|topic|group|transactional-id) (\S+)|--(cluster)")
KINDS = {"topic": TOPIC, "group": GROUP, "transactional-id": TRANSACTION}


def granted(user: str, block: str) -> set[Grant]:
    """Return what the commands of a block allow a user."""
    out: set[Grant] = set()
    for command in block.replace("\\\n", " ").splitlines():
        if command.startswith(f"$ALLOW User:{user} "):
            words = GRANTED.findall(command)
            whats = [
                AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()] for word, name, _ in words if word == "operation"
            ]
            on = [(KINDS[word], name) for word, name, _ in words if word in KINDS]
            on += [(CLUSTER, "kafka-cluster") for *_, cluster in words if cluster]
            out |= {(kind, name, what) for kind, name in on for what in whats}
    return out


def test_the_commands_that_give_permissions_give_those_that_are_shown_to_be_enough() -> None:
    (_, block), *_ = blocks(DOCS / "reference" / "permissions.md")
    always, advising, acting = block.split("# mode")[0], *(f"# mode{part}" for part in block.split("# mode")[1:])
    implied = {(TOPIC, "orders", DESCRIBE)}  # by Read
    assert granted("autoscaler", always + advising) - implied == set(of_adviser("orders", "orders").values())
    assert granted("autoscaler", always + acting) >= set(of_job("orders", "orders")) - implied
    assert granted("orders", acting) == set(of_worker("orders", "orders"))


# --- what pages tell one to write and to run ---------------------------------------------------------------------------


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the blocks of code of a page with their languages."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(text)) for _, language, text in found]


def configurations() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for language, text in blocks(page):
            if language == "yaml" and not text.startswith("apiVersion:"):
                yield page, text
            yield from (
                (page, inner) for inner in re.findall(r"^cat > \S+\.yaml <<END\n(.*?)^END$", text, re.MULTILINE | re.DOTALL)
            )


@pytest.mark.parametrize(("page", "text"), list(configurations()), ids=lambda x: x.stem if isinstance(x, Path) else "")
def test_every_configuration_on_a_page_is_valid(page: Path, text: str, tmp_path: Path) -> None:
    """What is left out on the page, because only a part is shown, is what the least configuration has."""
    data, group = yaml.safe_load(text), {"group": "orders", "topics": ["orders"]}
    if not set(data) <= set(Settings.model_fields):  # settings of a group
        data = {"groups": [{**group, **data}]}
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    file = tmp_path / "c.yaml"
    whole = {
        "clusters": [{"connection": {"bootstrap.servers": "localhost:9092"}}],
        "state_dir": str(tmp_path),
        "groups": [group],
        **data,
    }
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    assert load(str(file), connects=False).groups


def command_lines() -> Iterator[str]:
    for page in PAGES:
        for _, text in blocks(page):
            yield from (line.split("  #")[0].strip() for line in text.splitlines())
        yield from re.findall(r"`((?:make|\.venv/bin/\w+|python -m|autoscaler) [^`]*)`", prose(page))


def test_every_command_on_a_page_is_one() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    said = {
        line
        for line in command_lines()
        if line.startswith(("make ", ".venv/bin/", "./spark-submit.sh ", "autoscaler ", "python -m "))
    }
    assert len(said) > QUESTIONS
    wrong = []
    for line in said:
        words = line.replace(".venv/bin/", "").split()
        match words:
            case ["make", target, *_]:
                right = target in targets
            case ["python", "-m", module, *_]:
                right = any((ROOT / f"{module.replace('.', '/')}{end}").is_file() for end in (".py", "/__main__.py"))
            case ["python", script, *_]:
                right = (ROOT / script).is_file()
            case ["autoscaler", "--version"]:
                right = True
            case ["autoscaler", *rest]:
                right = any(" ".join(rest).startswith(name) for name, _ in subcommands(_parser()))
            case _:
                right = words[0] == "./spark-submit.sh"
        if not right:
            wrong.append(line)
    assert wrong == []
