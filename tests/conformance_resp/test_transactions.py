"""There are no transactions, and nothing of one is carried out."""

import pytest
import redis

from penstock.testing import Broker


@pytest.fixture(params=[2, 3], ids=["RESP 2", "RESP 3"])
def client(request):
    with Broker() as broker, redis.Redis(port=broker.port, protocol=request.param) as opened:
        yield opened


def test_a_pipeline_in_a_transaction_is_refused_as_a_whole_and_told_what_to_do(client):
    pipeline = client.pipeline()  # a transaction unless told otherwise
    pipeline.xadd("s", {"a": "1"})
    pipeline.publish("c", "x")
    pipeline.execute_command("PUSH", "q", "job")
    with pytest.raises(redis.ResponseError, match=r"pipeline\(transaction=False\)"):
        pipeline.execute()
    assert client.xlen("s") == client.xlen("c") == client.xlen("q:q") == 0


def test_after_it_all_commands_are_carried_out_again(client):
    for end in ("EXEC", "DISCARD", "RESET"):
        with client.client() as one:
            with pytest.raises(redis.ResponseError, match="has no transactions"):
                one.execute_command("MULTI")
            with pytest.raises(redis.ResponseError, match="not carried out"):
                one.execute_command("XADD", "s", "*", "a", "1")
            if end == "EXEC":
                with pytest.raises(redis.exceptions.ExecAbortError):
                    one.execute_command(end)
            else:
                one.execute_command(end)
            assert one.execute_command("XLEN", "s") == 0


def test_an_end_without_a_beginning_is_an_error(client):
    for end in ("EXEC", "DISCARD"):
        with pytest.raises(redis.ResponseError, match=f"{end} without MULTI"):
            client.execute_command(end)


def test_a_pipeline_without_a_transaction_works(client):
    pipeline = client.pipeline(transaction=False)
    pipeline.xadd("s", {"a": "1"})
    pipeline.xlen("s")
    assert pipeline.execute()[1] == 1
