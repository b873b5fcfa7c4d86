"""What would become of a publish: each condition, and who would get the message."""

from penstock.explain.explanation import Advice, Check, Explanation, Subject
from penstock.explain.facts import PublishFacts, Question
from penstock.explain.fates import Fate
from penstock.explain.wording import listed, several
from penstock.obs.reasons import advice_for


def explain_publish(facts: PublishFacts) -> Explanation:
    failed = next((one for one in facts.questions if not one.passes), None)
    checks = [Check(one.code, one.passes, one.text) for one in facts.questions]
    checks.append(Check("receivers", _is_wanted(facts), _audience(facts)))
    return Explanation(
        subject=Subject("publish", topic=facts.topic, user=facts.user or None),
        fate=_fate(facts, failed),
        summary=_summary(facts, failed),
        receivers_total=facts.receivers_total + len(facts.groups),
        checks=checks,
        advice=_advice(failed),
        not_kept=["what publishes by other protocols would be checked for besides"],
        near=[] if _is_wanted(facts) else list(facts.near),
    )


def _is_wanted(facts: PublishFacts) -> bool:
    return bool(facts.receivers_total or facts.groups)


def _fate(facts: PublishFacts, failed: Question | None) -> str:
    if failed is not None:
        return failed.reason or failed.code
    return Fate.DELIVERED.value if _is_wanted(facts) else Fate.NO_MATCH.value


def _summary(facts: PublishFacts, failed: Question | None) -> str:
    who = facts.user or "Anybody"
    if failed is not None:
        return f"{who} would be refused: {failed.text}"
    kept = "journaled" if facts.qos or facts.is_captured else "not journaled"
    return f"It would be taken and {kept}. {_audience(facts)}"


def _audience(facts: PublishFacts) -> str:
    if not _is_wanted(facts):
        near = f" Almost: {listed(facts.near)}." if facts.near else ""
        return f"Nobody subscribes to {facts.topic}.{near}"
    told = []
    if facts.receivers_total:
        clients = several(facts.receivers_total, "client")
        told.append(f"{clients} ({listed(facts.receivers)})")
    if facts.groups:
        told.append(f"{several(len(facts.groups), 'group')} ({listed(facts.groups)})")
    return f"It would go to {' and '.join(told)}."


def _advice(failed: Question | None) -> list[Advice]:
    if failed is None:
        return []
    text = failed.advice or advice_for(failed.reason, is_drop=True)
    return [Advice(text, failed.command)] if text else []
