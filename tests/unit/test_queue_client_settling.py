"""Settling more jobs than one request may name."""

from tests.unit.queue_client_link import ScriptedLink

from penstock.client import Job
from penstock.client.sync import run
from penstock.limits import LEASES_MAX


def job(number):
    fields = dict.fromkeys(Job.__struct_fields__, 0)
    return Job(**{**fields, "topic": "t", "group": "g", "lease_id": number})


def test_many_jobs_are_settled_by_several_requests():
    link = ScriptedLink([], [])
    run(link.operations().ack([job(number) for number in range(LEASES_MAX + 1)]))
    assert [len(request.ack_many.lease_ids) for request in link.begun] == [LEASES_MAX, 1]
    assert link.steps == ["begin", "begin", "wait", "wait"]
