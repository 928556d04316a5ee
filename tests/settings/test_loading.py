"""Settings from file, environment and command line, and the sentences that errors are."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless import settings
from lagless.errors import WrongSettings
from lagless.settings import Bucket, targets

LEAST: dict[str, Any] = {"group": "orders", "topics": ["orders"], "lake": {"path": "lake"}}


def test_three_values_are_enough_and_the_rest_has_the_documented_defaults() -> None:
    tree = settings.parse(LEAST)
    assert tree.controller.algorithm == "sticky"
    assert tree.controller.slack == 0.05
    assert (tree.monitor.interval, tree.monitor.window) == (5, 30)
    assert tree.consumer.batch_bytes == 5_000_000
    assert tree.kafka.isolation == "read_committed"
    assert tree.capacity == pytest.approx(tree.max_rate * 5 / 6)


def test_members_of_another_kind_need_no_lake() -> None:
    document = {"group": "orders", "topics": ["orders.*"], "members": {"kind": "group"}}
    tree = settings.parse(document)
    assert tree.of_others
    assert tree.plan_topic == "orders.plan"
    assert not any(map(tree.of_interest, ("orders.plan", *tree.nudge_topics, "orders.state")))
    assert tree.max_rate == tree.consumer.calibrated_rate
    assert settings.parse(document, overrides=["members.rate=3 MB/s"]).max_rate == 3e6
    assert not settings.parse(LEAST).of_others
    assert "orders.plan" not in settings.parse(LEAST).own_topics


def test_a_provisioner_of_the_other_kind_of_members_is_refused() -> None:
    document = {"group": "orders", "topics": ["orders.*"], "members": {"kind": "group"}}
    assert settings.parse(document).provisioner.kind == "none"
    with pytest.raises(WrongSettings, match="starts lagless's own consumers"):
        settings.parse(document, overrides=["provisioner.kind=kubernetes"])
    with pytest.raises(WrongSettings, match="for members that lagless did not write"):
        settings.parse(LEAST, overrides=["provisioner.kind=none"])


def test_a_workload_is_asked_for_where_it_is_scaled_and_refused_elsewhere() -> None:
    document = {"group": "orders", "topics": ["orders"], "members": {"kind": "group"}}
    kind, workload = "provisioner.kind=deployment", "provisioner.workload=orders"
    zero, ordered = "provisioner.scale_to_zero=true", "provisioner.kind=statefulset"
    assert settings.parse(document, overrides=[kind, workload, zero]).provisioner.scale_to_zero
    assert settings.parse(document, overrides=["provisioner.kind=keda", zero]).of_others
    with pytest.raises(WrongSettings, match=r"provisioner\.workload is missing"):
        settings.parse(document, overrides=[kind])
    with pytest.raises(WrongSettings, match="which nothing scales"):
        settings.parse(document, overrides=[workload])
    with pytest.raises(WrongSettings, match="only members without an order may all go"):
        settings.parse(document, overrides=[ordered, workload, zero])
    with pytest.raises(WrongSettings, match="for members that lagless did not write"):
        settings.parse(LEAST, overrides=[kind, workload])


@pytest.mark.parametrize("missing", ["group", "topics", "lake"])
def test_what_has_no_default_is_asked_for_by_name(missing: str) -> None:
    document = {key: value for key, value in LEAST.items() if key != missing}
    with pytest.raises(WrongSettings, match=f"^lagless.toml: {missing}: is missing"):
        settings.parse(document, "lagless.toml")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"monitr": {}}, "monitr: unknown setting; known here: group, topics"),
        ({"monitor": {"every": 1}}, "monitor.every: unknown setting; known here: interval"),
        ({"monitor": {"interval": 0}}, "monitor.interval: is 0.0 and should be more than 0"),
        ({"monitor": {"interval": 60}}, "monitor: window is 30 s and should be at least interval"),
        ({"consumer": {"max_rate": "2 XB"}}, "consumer.max_rate: is '2 XB' and should be a number"),
        ({"consumer": {"batch_bytes": True}}, "consumer.batch_bytes: should be a number of bytes"),
        ({"controller": {"rebalance": 30}}, "controller: rebalance is 30 s and should be less"),
        ({"controller": {"max_consumers": 0}}, "controller.max_consumers: input should be greater"),
        ({"topic": {"a": {"fromat": "x"}}}, "topic.a.fromat: unknown setting"),
        ({"topic": {"a": {"transform": "x"}}}, "topic.a.transform: is 'x' and should be module:fu"),
        ({"topics": ["["]}, "topics: '[' is not a regular expression"),
        ({"topics": []}, "topics: "),
        ({"group": "a b"}, "group: is 'a b' and should be letters"),
        ({"spark": {"url": "flink"}}, "spark.url: is 'flink' and should be local, spark://"),
        ({"spark": {"cores": 0}}, "spark.cores: input should be greater than or equal to 1"),
        ({"spark": {"memory": "2 GB"}}, "spark.memory: is '2 GB' and should be a size as Java"),
        ({"spark": {"memory": "511m"}}, "spark.memory: is '511m' and should be at least '512m'"),
        (
            {"spark": {"url": "local[2]", "cores": 3}},
            "spark: cores is 3 and url is 'local[2]': remove one of the two",
        ),
        (
            {"spark": {"url": "sc://spark:15002", "memory": "2g"}},
            "spark: memory has no effect with url 'sc://spark:15002': that server has its own",
        ),
        (
            {"spark": {"url": "spark://master:7077", "cores": 2}},
            "spark: cores has no effect with url 'spark://master:7077': set spark.cores.max",
        ),
        (
            {"spark": {"memory": "1g", "conf": {"spark.driver.memory": "2g"}}},
            "spark: memory is '1g' and spark.driver.memory in conf is '2g': remove spark.driver",
        ),
        ({"lake": {"path": "gs://b"}}, "lake.path: is 'gs://b' and should be a folder or s3://b"),
        ({"lake": {"path": "s3://b!"}}, "lake.path: is 's3://b!' and should name a bucket"),
        ({"lake": {"path": "s3://bkt/a//b"}}, "lake.path: is 's3://bkt/a//b'; a prefix should be"),
        ({"lake": {"path": "s3://bkt/../b"}}, "lake.path: is 's3://bkt/../b'; a prefix should be"),
        ({"lake": {"path": "s3://id:pw@b"}}, "lake.path: credentials do not belong in an addr"),
        (
            {"lake": {"path": "s3://bucket", "storage": {"secret_access_key": "hush"}}},
            "lake.storage: secret_access_key: credentials do not belong in the settings; set AWS_",
        ),
        (
            {"lake": {"path": "s3://bucket", "storage": {"endpoint": "http://id:pw@host"}}},
            "lake.storage.endpoint: credentials do not belong in an address: set AWS_",
        ),
        (
            {"lake": {"path": "s3://bucket", "storage": {"endpoint": "host:9000"}}},
            "lake.storage.endpoint: is 'host:9000' and should be http://host:port",
        ),
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
    assert not re.search("pw@|hush", str(caught.value))


@pytest.mark.parametrize(
    ("spark", "master", "heap"),
    [
        ({}, "local[2]", "2g"),
        ({"url": "local", "cores": 1, "memory": "800M"}, "local[1]", "800m"),
        ({"url": "local[3]", "cores": 3}, "local[3]", "2g"),
        ({"url": "local[*]"}, "local[*]", "2g"),
        ({"url": "spark://master:7077", "memory": "1g"}, "spark://master:7077", "1g"),
        ({"conf": {"spark.driver.memory": "3g"}}, "local[2]", "3g"),
        ({"url": "sc://spark:15002"}, "sc://spark:15002", None),
    ],
)
def test_a_spark_of_a_consumers_own_has_the_cores_and_the_heap_that_are_set(
    spark: dict[str, Any], master: str, heap: str | None
) -> None:
    tree = settings.parse({**LEAST, "spark": spark}).spark
    assert tree.master == master
    assert tree.configuration.get("spark.driver.memory") == heap


def test_a_lake_is_a_folder_or_a_place_in_a_bucket() -> None:
    def path(text: str) -> Path | Bucket:
        return settings.parse({**LEAST, "lake": {"path": text}}).lake.path

    assert path("lake") == path("file://lake") == Path("lake")
    assert path("s3://bucket") == path("s3://bucket/") == Bucket("bucket")
    assert path("s3://bucket/a/day=1/") == Bucket("bucket", "a/day=1")
    assert [str(path(text)) for text in ("s3://bucket/", "s3://bucket/a")] == [
        "s3://bucket",
        "s3://bucket/a",
    ]
    assert str(Bucket("bucket").inside("x")) == "s3://bucket/x"


def test_credentials_of_a_store_are_no_setting_of_the_environment_either() -> None:
    variables = {"LAGLESS_LAKE__STORAGE__SESSION_TOKEN": "hush"}
    with pytest.raises(WrongSettings, match="session_token: credentials do not belong") as caught:
        settings.parse({**LEAST, "lake": {"path": "s3://bucket"}}, environ=variables)
    assert "hush" not in str(caught.value)


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
    with pytest.raises(WrongSettings, match=r"expected KEY=VALUE, such as monitor\.interval=2"):
        settings.parse(LEAST, overrides=["monitor.interval"])


def test_variables_of_other_purposes_are_left_alone() -> None:
    assert settings.parse(LEAST, environ={"LAGLESS_TEST_KUBECONFIG": "x"}).group == "orders"


def test_lists_can_come_from_the_environment() -> None:
    tree = settings.parse(LEAST, environ={"LAGLESS_TOPICS": "a, b-.*"})
    assert tree.topics == ("a", "b-.*")


def test_files_that_are_not_there_or_not_toml_are_named(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match=r"nothing\.toml does not exist; create it"):
        settings.load(tmp_path / "nothing.toml", {})
    broken = tmp_path / "broken.toml"
    broken.write_text("group = ")
    with pytest.raises(WrongSettings, match=r"broken\.toml is not valid TOML"):
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


def test_a_group_may_scale_to_zero_and_not_below() -> None:
    assert settings.parse({**LEAST, "controller": {"min_consumers": 0}}).capacity > 0
    with pytest.raises(WrongSettings, match=r"controller\.min_consumers"):
        settings.parse({**LEAST, "controller": {"min_consumers": -1}})


def test_avro_needs_a_registry_and_takes_no_schema() -> None:
    avro = {**LEAST, "topic": {"orders": {"format": "avro"}}}
    with pytest.raises(WrongSettings, match=r"topic\.orders\.format is 'avro', which needs"):
        settings.parse(avro)
    tree = settings.parse({**avro, "registry": {"url": "http://127.0.0.1:8081/"}})
    assert tree.registry.url == "http://127.0.0.1:8081"
    with pytest.raises(WrongSettings, match="the schemas of avro come from the registry"):
        settings.parse(avro, overrides=["topic.orders.schema=a INT"])


def test_a_target_for_the_delay_sets_what_is_not_set_by_hand() -> None:
    aimed = settings.parse({**LEAST, "controller": {"delay": "10 s", "pause": 1}}).controller
    assert (aimed.delay, aimed.slack, aimed.catch_up, aimed.pause) == (10, 0.1, 30, 1)
    words = ["controller.delay=2 min"]
    assert settings.parse(LEAST, overrides=words).controller.catch_up == 360
    plain = settings.parse(LEAST).controller
    for name, value in targets.knobs(targets.DEFAULT).items():
        assert getattr(plain, name) == value
    with pytest.raises(WrongSettings, match="should be a time such as '10 s'"):
        settings.parse({**LEAST, "controller": {"delay": "soon"}})


@pytest.mark.parametrize(
    ("text", "password"),
    [("1234", "1234"), ("true", "true"), ("s3cret", "s3cret"), ('"a\\"b"', 'a"b'), ("1e3", "1e3")],
)
def test_a_password_in_a_variable_may_look_like_anything(text: str, password: str) -> None:
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "ann"}
    tree = {**LEAST, "kafka": {"security": security}}
    found = settings.parse(tree, environ={"LAGLESS_KAFKA__SECURITY__PASSWORD": text})
    assert found.kafka.security.read_password() == password
