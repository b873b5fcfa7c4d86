"""Settling more jobs than one request may name."""

from penstock.client.queue import plans, requests
from penstock.limits import LEASES_MAX


def job(number):
    fields = dict.fromkeys(plans.Job.__struct_fields__, 0)
    return plans.Job(**{**fields, "topic": "t", "group": "g", "lease_id": number})


def test_many_jobs_are_settled_by_several_requests():
    jobs = [job(number) for number in range(LEASES_MAX + 1)]
    begun = [
        step.call.request for step in plans.settle(jobs, requests.ack_many) if hasattr(step, "call")
    ]
    assert [len(request.ack_many.lease_ids) for request in begun] == [LEASES_MAX, 1]
