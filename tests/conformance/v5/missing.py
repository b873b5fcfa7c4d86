"""Which tests of version 5 are expected to fail, and what the broker lacks."""

MISSING: dict[str, str] = {
    "test_a_message_too_large_for_one_member_goes_to_another": "shared subscriptions by the rules of 5.0",
}
