"""The catalogue of diagnoses: complete, and consistent with the thresholds, the rules, and the generated page."""

import ast
import re
from importlib import resources
from pathlib import Path

import pytest

import rebalance_contract
from rebalance_contract import RebalanceReason
from rebalance_deploy.settings import Sources, load
from rebalance_devtools.docs.diagnoses import SETTINGS_EXAMPLE, render, write, write_traits
from rebalance_streaming.detect import catalogue
from rebalance_streaming.detect.catalogue import (
    DIAGNOSES,
    ENTRIES,
    FAMILIES,
    GENERAL_THRESHOLDS,
    THRESHOLD_TEXTS,
    TRAITS,
    Diagnosis,
    diagnosis,
    in_words,
    of_family,
    with_trait,
)
from rebalance_streaming.detect.config import THRESHOLD_NAMES, DetectConfig
from rebalance_streaming.detect.wording import WORDINGS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "diagnoses.md"
PACKAGE = Path(catalogue.__file__).parent

#: Words in the texts that look like diagnosis ids but are settings or variants.
OTHER_WORDS = {
    *("metadata_max_age_ms", "heartbeat_interval_ms", "consumer_timeout_ms", "nr_throttled"),
    *("idle_lock", "lock_contention", "native_code", "event_loop_blocked", "__consumer_offsets"),
}


def texts(each):
    return {
        "meaning": each.meaning,
        "detected_by": each.detected_by,
        "action": each.action,
        **({"escalates": each.escalates} if each.escalates else {}),
    }


# --- The catalogue itself ---


def test_every_family_has_diagnoses():
    """The page has no empty chapter, and every file of entries is a family."""
    assert {each.family for each in DIAGNOSES.values()} == FAMILIES.keys()
    assert {path.stem for path in (PACKAGE / "diagnoses").glob("*.toml")} == FAMILIES.keys()


def test_every_diagnosis_is_said():
    """Each entry of the catalogue has texts; other tests check that rules use all of them."""
    assert DIAGNOSES.keys() - {each.rule for each in WORDINGS.values()} == set()


def test_traits_are_known_and_had_by_some_diagnosis():
    """An unused trait is removed together with the code that checks it."""
    assert {trait for each in DIAGNOSES.values() for trait in each.traits} == TRAITS.keys()
    assert with_trait("gathers") == {"cluster_wide_disturbance", "rebalance_storm"}
    assert "rolling_deploy" in of_family("benign")


def test_a_diagnosis_is_found_by_its_id():
    """The id is the key; an unknown id is an error."""
    assert diagnosis("poll_overrun").id == "poll_overrun"
    with pytest.raises(KeyError):
        diagnosis("bad_luck")


def test_only_harm_pages():
    """By default only affected consumption causes a page."""
    assert {each.id for each in DIAGNOSES.values() if each.severity == "page"} == {
        *("no_progress_loop", "stalled_consumer", "empty_group_with_lag", "zk_orphan_partition"),
        *("coordinator_stuck_rebalance", "offsets_topic_unhealthy", "cluster_wide_disturbance"),
    }


def test_what_is_explained_and_harmless_notifies_nobody():
    """Benign diagnoses are informational, and there are three severities."""
    assert {each.severity for each in DIAGNOSES.values() if each.family == "benign"} == {"info"}
    assert {each.severity for each in DIAGNOSES.values()} == {"page", "ticket", "info"}


def test_texts_are_fit_to_print():
    """Titles fit into a table; every text is one paragraph of complete sentences without placeholders."""
    for each in DIAGNOSES.values():
        assert 0 < len(each.title) <= 65, each.title
        assert not each.title.endswith("."), each.title
        for text in texts(each).values():
            assert re.fullmatch(r"[^\n{}|]+\.", text), text
            assert "  " not in text, text


def test_look_alikes_exist():
    """Diagnoses referenced in a text exist."""
    written = " ".join(text for each in DIAGNOSES.values() for text in texts(each).values())
    assert set(re.findall(r"`(\w+_\w+)`", written)) - DIAGNOSES.keys() - OTHER_WORDS - THRESHOLD_NAMES == set()


# --- Thresholds ---


def test_every_threshold_belongs_somewhere():
    """Each threshold affects a diagnosis or is listed as general, and is explained; all listed ones exist."""
    used = {name for each in DIAGNOSES.values() for name in each.thresholds}
    assert used | set(GENERAL_THRESHOLDS) == THRESHOLD_NAMES
    assert THRESHOLD_TEXTS.keys() == THRESHOLD_NAMES


def test_texts_take_their_numbers_from_the_thresholds():
    """The texts of a diagnosis mention each of its thresholds with its default."""
    silent = {
        (each.id, name)
        for each in DIAGNOSES.values()
        for name in each.thresholds
        if f"{{{name}}}" not in _source_of(each)
    }
    assert silent == set()


def _source_of(each: Diagnosis) -> str:
    return " ".join(text for text in ENTRIES[each.family][each.id].values() if isinstance(text, str))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("stalled_ms", 300_000, "5 min"),
        ("shared_ms", 3_600_000, "1 h"),
        ("retention_ms", 604_800_000, "7 d"),
        ("barrier_page_ms", 60_000, "1 min"),
        ("sync_warn_ms", 1_500, "1500 ms"),
        ("zk_idle_ms", 90_000, "90 s"),
        ("stuck_slack_ms", 150_000, "2.5 min"),
        ("barrier_ms", 250, "250 ms"),
        ("storm_share", 0.3, "30 %"),
        ("duplicates_share", 0.001, "0.1 %"),
        ("poll_risk_warn", 0.5, "50 %"),
        ("skew_factor", 3.0, "3"),
        ("storm_rebalances", 5, "5"),
    ],
)
def test_thresholds_in_words(name: str, value: float, words: str):
    """A threshold is shown in the unit of its name."""
    assert in_words(name, value) == words


# --- The page ---


def test_the_page_is_current(tmp_path: Path):
    """After a change of the catalogue or a threshold write the page again."""
    write(tmp_path / "diagnoses.md")
    assert PAGE.read_text() == (tmp_path / "diagnoses.md").read_text()


def test_the_traits_of_the_contract_are_current(tmp_path: Path):
    """Readers of findings use the same traits as the rules."""
    write_traits(tmp_path / "diagnoses.json")
    published = resources.files(rebalance_contract).joinpath("diagnoses.json").read_text("utf-8")
    assert published == (tmp_path / "diagnoses.json").read_text()


def test_links_on_the_page_lead_somewhere():
    """Every link within the page has its heading, and every diagnosis has one."""
    page = render()
    headings = {each.lower().replace(" ", "-") for each in re.findall(r"^#+ ([\w -]+)$", page, re.MULTILINE)}
    linked = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert linked - headings == set()
    assert linked >= DIAGNOSES.keys()


def test_every_threshold_stands_on_the_page_with_its_default():
    """Thresholds can be found by name."""
    page = render()
    assert {name for name in THRESHOLD_NAMES if f"| `{name}` | " not in page} == set()
    assert "| `storm_window_ms` | 600000 (10 min) |" in page
    assert "| `storm_rebalances` | 5 |" in page
    assert "| `storm_share` | 0.3 (30 %) |" in page


def test_the_settings_on_the_page_are_accepted(tmp_path: Path):
    """An example on the page can be copied into a settings file and has the described effect."""
    assert f"```toml\n{SETTINGS_EXAMPLE}```" in render()
    file = tmp_path / "monitor.toml"
    file.write_text(SETTINGS_EXAMPLE)
    config = load(DetectConfig, "detect", Sources(file=file), {"detect": DetectConfig})
    assert (config.window_scale, config.settle_ms, config.ignore) == (
        DetectConfig().window_scale,
        DetectConfig().settle_ms,
        DetectConfig().ignore,
    )
    billing, other = config.for_group("billing-eu"), config.for_group("payments")
    assert (billing.stalled_ms, billing.storm_rebalances, billing.idle_ms) == (900_000, 10, 3_600_000)
    assert (other.stalled_ms, other.storm_rebalances, other.idle_ms) == (600_000, 5, 3_600_000)
    assert config.silenced("nightly-report", "empty_group_with_lag", 0)
    assert not config.silenced("nightly-report", "stalled_consumer", 0)
    assert config.silenced("billing-eu", "stalled_consumer", 1_798_761_599_999)
    assert not config.silenced("billing-eu", "stalled_consumer", 1_798_761_600_000)


# --- Use of ids in the code ---

#: Modules that use traits of diagnoses, and rules with the texts they use.
INSTALLED = (ROOT / "streaming", ROOT / "exporters", ROOT / "deploy" / "rebalance_deploy")
#: Words of the contract that are also ids: the unknown cause, and reasons in a group's log.
OF_THE_CONTRACT = {"undetermined", *RebalanceReason}


def test_ids_stand_in_rules_only():
    """Other code uses the traits of diagnoses, so that a new diagnosis needs no change there."""
    ids = DIAGNOSES.keys() - OF_THE_CONTRACT
    files = [path for folder in INSTALLED for path in folder.rglob("*.py") if path.parent != PACKAGE / "rules"]
    # Parsing all of them takes a second.
    word = re.compile(rf"\b(?:{'|'.join(ids)})\b")
    named = {
        (path.name, node.value)
        for path in files
        if word.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in ids
    }
    assert named == set()
