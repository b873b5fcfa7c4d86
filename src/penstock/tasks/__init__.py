"""Functions that run on other machines: ``@app.task``, on top of the queue client.

>>> from penstock.tasks import App
>>> app = App("shop", ["127.0.0.1:1883"])
>>> @app.task(retries=5, time_limit_s=30)
... def resize(image: str, width: int = 200) -> str:
...     return f"{image} is {width} wide"
>>> resize("cat.png")  # here and now
'cat.png is 200 wide'
>>> sent = resize.delay("cat.png", width=100)  # doctest: +SKIP

``penstock worker shop:app`` runs what ``delay`` sends. Everything that makes it safe is the
broker's: each task is a topic (``tasks/shop/resize``), its workers are a group, a job is a JSON
object of the function's parameters. So retries, back-off, dead letters, priorities, delays and
rates are those of queues, ``penstock queue`` and the console show them, and any program that can
publish JSON can send a job.

``app`` has tasks and sends jobs, ``signature`` makes JSON of calls, ``worker`` runs jobs,
``children`` runs those that may have to be killed, ``results`` brings values back, ``timing`` has
``cron`` and ``every``.
"""

from penstock.client.queue.values import DeadLetter, Retry
from penstock.tasks.app import App, Sending, Task
from penstock.tasks.current import Attempt, current
from penstock.tasks.results import Sent, TaskFailedError
from penstock.tasks.timing import Schedule, cron, every

__all__ = [
    "App",
    "Attempt",
    "DeadLetter",
    "Retry",
    "Schedule",
    "Sending",
    "Sent",
    "Task",
    "TaskFailedError",
    "cron",
    "current",
    "every",
]
