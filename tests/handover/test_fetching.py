"""How the data client fetches, and that the application's own settings win."""

from confluent_kafka import Consumer

from autoscaler.worker.fetch_config import fetching


def test_a_client_fetches_one_small_batch_ahead_or_four_large_ones() -> None:
    for batch, ahead in ((40_960, 40_960), (65_536, 65_536), (131_072, 262_144), (262_144, 1_048_576), (1_048_576, 4_194_304)):
        asked = fetching(batch, 16)
        assert asked["queued.max.messages.kbytes"] == ahead // 1024
        assert asked["message.max.bytes"] == ahead
    assert fetching(1, 16)["message.max.bytes"] == 32_768  # or a fetch would bring next to nothing


def test_a_record_waits_for_others_only_where_a_fetch_names_many_partitions() -> None:
    assert fetching(32_768, 256)["fetch.min.bytes"] == 1
    assert fetching(32_768, 257)["fetch.min.bytes"] == 4096


def test_the_client_takes_the_settings_and_larger_ones_of_the_application() -> None:
    base = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
    for own in ({}, {"message.max.bytes": 5_000_000}, {"queued.max.messages.kbytes": 65_536}):
        Consumer({**base, **fetching(1, 1000), **own}).close()
