"""Settings from file, environment and command line, and the sentences that errors are."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless import settings
from lagless.errors import WrongSettings

LEAST: dict[str, Any] = {"group": "orders", "topics": ["orders"], "lake": {"path": "lake"}}


def test_three_values_are_enough_and_the_rest_has_the_documented_defaults() -> None:
    tree = settings.parse(LEAST)
    assert tree.controller.algorithm == "sticky"
    assert tree.controller.slack == 0.05
    assert (tree.monitor.interval, tree.monitor.window) == (5, 30)
    assert tree.consumer.batch_bytes == 5_000_000
    assert tree.kafka.isolation == "read_committed"
    assert tree.capacity == pytest.approx(tree.max_rate * 5 / 6)


@pytest.mark.parametrize("missing", ["group", "topics", "lake"])
def test_what_has_no_default_is_asked_for_by_name(missing: str) -> None:
    document = {key: value for key, value in LEAST.items() if key != missing}
    with pytest.raises(WrongSettings, match=f"^lagless.toml: {missing}: is missing"):
        settings.parse(document, "lagless.toml")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"monitr": {}}, "monitr: there is no such setting; there are: group, topics"),
        ({"monitor": {"every": 1}}, "monitor.every: there is no such setting; there are: interval"),
        ({"monitor": {"interval": 0}}, "monitor.interval: is 0.0 and should be more than 0"),
        ({"monitor": {"interval": 60}}, "monitor: window is 30 s and should be at least interval"),
        ({"consumer": {"max_rate": "2 XB"}}, "consumer.max_rate: is '2 XB' and should be a number"),
        ({"consumer": {"batch_bytes": True}}, "consumer.batch_bytes: should be a number of bytes"),
        ({"controller": {"rebalance": 30}}, "controller: rebalance is 30 s and should be less"),
        ({"controller": {"max_consumers": 0}}, "controller.max_consumers: input should be greater"),
        ({"topic": {"a": {"fromat": "x"}}}, "topic.a.fromat: there is no such setting"),
        ({"topic": {"a": {"transform": "x"}}}, "topic.a.transform: is 'x' and should be module:fu"),
        ({"topics": ["["]}, "topics: '[' is no regular expression"),
        ({"topics": []}, "topics: "),
        ({"group": "a b"}, "group: is 'a b' and should be letters"),
        ({"spark": {"url": "flink"}}, "spark.url: is 'flink' and should be local[n]"),
        ({"lake": {"path": "s3://bucket"}}, "lake.path: is 's3://bucket': only a folder"),
        (
            {"kafka": {"security": {"protocol": "SASL_SSL"}}},
            "kafka.security: protocol SASL_SSL needs a mechanism",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(
    part: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(WrongSettings) as caught:
        settings.parse({**LEAST, **part}, "lagless.toml")
    assert str(caught.value).startswith(f"lagless.toml: {sentence}")
    assert "\n" not in str(caught.value)


def test_the_command_line_goes_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "lagless.toml"
    file.write_text('group = "g"\ntopics = ["t"]\nlake.path = "l"\nmonitor.interval = 3\n')
    variables = {"LAGLESS_MONITOR__INTERVAL": "4", "LAGLESS_KAFKA__BOOTSTRAP": "kafka:9092"}
    assert settings.load(file, {}).monitor.interval == 3
    assert settings.load(file, variables).monitor.interval == 4
    assert settings.load(file, variables).kafka.bootstrap == "kafka:9092"
    assert settings.load(file, variables, ["monitor.interval=6"]).monitor.interval == 6


def test_an_error_names_the_variable_or_word_that_it_came_from() -> None:
    with pytest.raises(WrongSettings, match=r"^environment variable LAGLESS_MONITOR__INTERVAL: "):
        settings.parse(LEAST, environ={"LAGLESS_MONITOR__INTERVAL": "soon"})
    with pytest.raises(WrongSettings, match=r"^--set monitor.interval=soon: monitor.interval: "):
        settings.parse(LEAST, overrides=["monitor.interval=soon"])
    with pytest.raises(WrongSettings, match="should be KEY=VALUE"):
        settings.parse(LEAST, overrides=["monitor.interval"])


def test_variables_of_other_purposes_are_left_alone() -> None:
    assert settings.parse(LEAST, environ={"LAGLESS_TEST_KUBECONFIG": "x"}).group == "orders"


def test_lists_can_come_from_the_environment() -> None:
    tree = settings.parse(LEAST, environ={"LAGLESS_TOPICS": "a, b-.*"})
    assert tree.topics == ("a", "b-.*")


def test_files_that_are_not_there_or_not_toml_are_named(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match=r"nothing\.toml: there is no such file"):
        settings.load(tmp_path / "nothing.toml", {})
    broken = tmp_path / "broken.toml"
    broken.write_text("group = ")
    with pytest.raises(WrongSettings, match=r"broken\.toml: this is not TOML"):
        settings.load(broken, {})


def test_a_secret_in_the_file_is_refused_and_not_repeated() -> None:
    document = {**LEAST, "kafka": {"security": {"password": "hunter2"}}}
    with pytest.raises(WrongSettings, match="LAGLESS_KAFKA__SECURITY__PASSWORD") as caught:
        settings.parse(document)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    tree = settings.parse(LEAST, environ={"LAGLESS_KAFKA__SECURITY__PASSWORD": "hunter2"})
    assert tree.kafka.security.password is not None
    assert tree.kafka.security.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(tree)
    assert "hunter2" not in tree.model_dump_json()


def test_topics_are_names_or_patterns_for_the_whole_name() -> None:
    tree = settings.parse({**LEAST, "topics": ["orders", "pay.*", "__consumer_offsets"]})
    assert tree.of_interest("orders")
    assert tree.of_interest("payments")
    assert not tree.of_interest("orders2")
    assert not tree.of_interest("repay")
    assert tree.of_interest("__consumer_offsets"), "asked for by its name"
    everything = settings.parse({**LEAST, "topics": [".*"]})
    assert not everything.of_interest("__transaction_state")
    assert not any(everything.of_interest(topic) for topic in everything.own_topics)


@given(st.integers(1, 10**15), st.sampled_from(["B", "kB", "MB", "GB", "KiB", "MiB", ""]))
def test_sizes_in_text_are_the_same_as_numbers(number: int, unit: str) -> None:
    factor = {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20}[unit]
    rate = settings.parse({**LEAST, "consumer": {"max_rate": f"{number} {unit}/s"}}).max_rate
    assert rate == pytest.approx(number * factor)


def test_every_field_is_described() -> None:
    def undescribed(model: Any, path: str) -> list[str]:
        missing = []
        for name, field in model.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                missing += undescribed(inner, f"{path}{name}.")
            elif not field.description:
                missing.append(path + name)
        return missing

    assert undescribed(settings.Settings, "") == []
