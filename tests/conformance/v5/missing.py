"""Which tests of version 5 are expected to fail, and what the broker lacks."""

MISSING: dict[str, str] = {
    "test_a_delivery_has_the_id_and_options_of_the_members_own_share": "shared subscriptions by the rules of 5.0",
    "test_a_message_too_large_for_one_member_goes_to_another": "shared subscriptions by the rules of 5.0",
    "test_a_plain_match_of_a_member_is_another_copy": "shared subscriptions by the rules of 5.0",
    "test_a_delivery_carries_the_id_of_its_subscription[1-0]": "subscription options and identifiers",
    "test_a_delivery_carries_the_id_of_its_subscription[127-0]": "subscription options and identifiers",
    "test_a_delivery_carries_the_id_of_its_subscription[128-0]": "subscription options and identifiers",
    "test_a_delivery_carries_the_id_of_its_subscription[16384-0]": "subscription options and identifiers",
    "test_a_delivery_carries_the_id_of_its_subscription[268435455-0]": "subscription options and identifiers",
    "test_another_subscription_without_no_local_still_delivers": "subscription options and identifiers",
    "test_no_local_keeps_a_client_from_its_own_messages_alone[0]": "subscription options and identifiers",
    "test_overlapping_subscriptions_give_one_copy_of_the_highest_qos_with_all_ids[0]": "subscription options and identifiers",
    "test_retain_as_published_decides_the_flag_of_live_messages[True-0]": "subscription options and identifiers",
    "test_retained_messages_carry_the_id_of_this_subscribe": "subscription options and identifiers",
    "test_subscribing_again_replaces_the_id_or_removes_it": "subscription options and identifiers",
}
