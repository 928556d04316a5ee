"""What brokers' answers are made of."""

from types import SimpleNamespace as Thing
from typing import Any

from lagless.adapters.kafka.log_sizes import Answer, Leader
from lagless.model import TopicPartition
from lagless.ports import LogSize

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEADERS = {P: Leader(1, "id"), Q: Leader(1, "id")}


def offsets(zero: int, one: int, error: int = 0) -> Any:
    numbers = enumerate((zero, one))
    return Thing(
        topics=[
            Thing(
                name="orders",
                partitions=[
                    Thing(partition_index=n, offset=offset, error_code=error if n else 0)
                    for n, offset in numbers
                ],
            )
        ]
    )


def folder(sizes: dict[int, int], error: int = 0, future: bool = False) -> Any:
    return Thing(
        error_code=error,
        log_dir="/data",
        topics=[
            Thing(
                name="orders",
                partitions=[
                    Thing(partition_index=n, partition_size=size, is_future_key=future)
                    for n, size in sizes.items()
                ],
            )
        ],
    )


def dirs(*folders: Any, error: int = 0) -> Any:
    return Thing(error_code=error, results=list(folders))


def test_size_and_offsets_come_together() -> None:
    answer = Answer(LEADERS)
    answer.take(
        offsets(1, 2), dirs(folder({0: 100}), folder({1: 200})), offsets(5, 6), offsets(1, 2)
    )
    assert answer.sizes == {P: LogSize(100, 1, 5, "id", 1), Q: LogSize(200, 2, 6, "id", 1)}
    assert not answer.trouble
    assert not answer.missing()


def test_a_log_whose_start_moved_meanwhile_is_to_be_asked_for_again() -> None:
    answer = Answer(LEADERS)
    answer.take(offsets(1, 2), dirs(folder({0: 100, 1: 200})), offsets(5, 6), offsets(1, 3))
    assert set(answer.sizes) == {P}
    assert answer.moving == {Q}
    assert not answer.missing()


def test_a_copy_in_the_making_is_not_the_log() -> None:
    answer = Answer(LEADERS)
    both = dirs(folder({0: 100, 1: 200}), folder({0: 7}, future=True))
    answer.take(offsets(0, 0), both, offsets(5, 6), offsets(0, 0))
    assert answer.sizes[P].bytes == 100


def test_a_folder_with_an_error_costs_only_its_own_logs() -> None:
    answer = Answer(LEADERS)
    some = dirs(folder({0: 100}), folder({}, error=56))
    answer.take(offsets(0, 0), some, offsets(5, 6), offsets(0, 0))
    assert set(answer.sizes) == {P}
    assert answer.missing() == {Q}
    assert "KafkaStorageError" in answer.trouble


def test_offsets_with_an_error_cost_only_their_own_partition() -> None:
    answer = Answer(LEADERS)
    sizes = dirs(folder({0: 100, 1: 200}))
    answer.take(offsets(0, 0), sizes, offsets(5, 6, error=6), offsets(0, 0))
    assert set(answer.sizes) == {P}
    assert answer.missing() == {Q}


def test_a_missing_right_is_named() -> None:
    answer = Answer(LEADERS)
    answer.take(offsets(0, 0), dirs(error=31), offsets(5, 6), offsets(0, 0))
    assert answer.missing() == {P, Q}
    assert "ClusterAuthorizationFailedError" in answer.trouble


def test_logs_that_are_led_elsewhere_are_left_out() -> None:
    answer = Answer({P: Leader(1, "id")})
    answer.take(offsets(0, 0), dirs(folder({0: 1, 1: 2})), offsets(5, 6), offsets(0, 0))
    assert set(answer.sizes) == {P}
