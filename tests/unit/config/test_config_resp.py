"""The section for Redis clients: live only by default, and a password that is never shown."""

from penstock.config.load import load
from penstock.config.schema import Config, Resp


def test_subscribers_are_told_of_the_past_and_need_no_password_by_default():
    assert Config().resp == Resp(replay=False, password="")


def test_the_password_may_come_from_the_environment_and_is_not_shown():
    secret = "correct-horse-battery"
    config = load(None, {"PENSTOCK_RESP_PASSWORD": secret}, {}).config
    assert config.resp.password == secret
    assert secret not in repr(config)
    assert "(hidden)" in repr(config.resp)
