"""What a stream must not lose or repeat when much changes at a time, or just then."""

from tests.unit.spark.readers import Stream, fill, payloads, source


def test_changes_of_more_topics_than_a_page_has_are_all_read(servers, client, monkeypatch):
    """Otherwise the rest would wait until something is published to those topics again."""
    monkeypatch.setattr("penstock.doors.queue.changes.PAGE_MAX", 3)
    stream = Stream(servers, subscribe="s/#")
    for number in range(8):
        fill(client, f"s/{number}", 1)
    assert len(stream.next()) == 8
    for number in range(8):
        fill(client, f"s/{number}", 1, 1)
    assert payloads(stream.next()) == [1] * 8


def test_so_are_deletions_between_them(servers, client, monkeypatch):
    monkeypatch.setattr("penstock.doors.queue.changes.PAGE_MAX", 2)
    stream = Stream(servers, subscribe="s/#")
    for number in range(8):
        fill(client, f"s/{number}", 1)
    stream.next()
    for number in (2, 3, 4, 7):
        client.delete_topic(f"s/{number}")
    for number in (0, 1, 5, 6):
        fill(client, f"s/{number}", 1, 1)
    assert payloads(stream.next()) == [1] * 4
    assert sorted(stream.offset["topics"]) == ["s/0", "s/1", "s/5", "s/6"]


def test_a_pin_at_the_end_does_not_hold_for_who_begins_at_the_beginning(servers, client):
    """Else what is between would be left out, though earliest was asked for."""
    fill(client, "s/1", 5)
    Stream(servers, subscribe="s/#", reader="q", startingOffsets="latest").reader.initialOffset()
    stream = Stream(servers, subscribe="s/#", reader="q")
    assert payloads(stream.next()) == [0, 1, 2, 3, 4]
    [group] = client.groups("s/1")
    assert (group.position, group.start) == (0, 0)


def test_a_batch_that_was_planned_for_more_topics_is_read_whole_after_a_narrower_subscription(
    servers, client, monkeypatch
):
    monkeypatch.setattr("penstock.spark.topic_watch.SINGLE_MAX", 2)
    stream = Stream(servers, subscribe="s/#")
    for number in range(5):
        fill(client, f"s/{number}", 1)
    assert stream.log()
    stream.source = source(servers, subscribe="s/1")
    stream.restart()
    assert len(stream.run()) == 5


def test_latest_is_later_than_the_target_of_available_now_and_stays_so(servers, client):
    fill(client, "s/1", 5)
    stream = Stream(servers, subscribe="s/#", startingOffsets="latest")
    stream.prepare()
    fill(client, "s/1", 1, 5)
    assert stream.next() == []
    stream.restart()
    fill(client, "s/1", 1, 6)
    assert payloads(stream.next()) == [6]


def test_a_topic_read_to_its_end_and_deleted_is_no_loss_for_a_repeated_batch_either(
    servers, client
):
    stream = Stream(servers, subscribe="s/#")
    fill(client, "s/1", 5)
    fill(client, "s/2", 5)
    stream.next()
    client.delete_topic("s/1")
    fill(client, "s/2", 1, 5)
    assert stream.log()
    stream.restart()
    assert payloads(stream.run()) == [5]
    assert "gone" in stream.offset
    assert not stream.log()
