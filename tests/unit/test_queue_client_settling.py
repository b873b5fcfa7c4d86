"""Settling more jobs than one request may name."""

import contextlib

from penstock.client.queue import plans, requests
from penstock.limits import LEASES_MAX


def job(number):
    fields = dict.fromkeys(plans.Job.__struct_fields__, 0)
    return plans.Job(**{**fields, "topic": "t", "group": "g", "lease_id": number})


def test_many_jobs_are_settled_by_several_requests():
    jobs = [job(number) for number in range(LEASES_MAX + 1)]
    plan, begun, answer = plans.settle(jobs, requests.ack_many), [], None
    with contextlib.suppress(StopIteration):
        while True:
            step = plan.send(answer)
            is_begun = hasattr(step, "call")
            begun += [step.call.request] if is_begun else []
            answer = None if is_begun else []
    assert [len(request.ack_many.lease_ids) for request in begun] == [LEASES_MAX, 1]
