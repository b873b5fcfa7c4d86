"""What Spark says at length is said in a line or two. The texts are of real failures."""

from pyspark.errors import PySparkException

from penstock.spark.pipelines.monitor import CAUSE_CHARACTERS, cause, failure

OF_THE_SOURCE = """\
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
initialOffset: Traceback (most recent call last):
  File "dial.py", line 13, in dial
    connection = socket.create_connection((host, port), timeout_s)
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "dial.py", line 15, in dial
    raise unreachable(error, host, port, timeout_s) from error
penstock.client.errors.UnreachableError: no broker is listening on 127.0.0.1:1; start one \
with `penstock serve`
  or say where it is
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: [id = d5467e5f, runId = 7b9151f8]
"""

OF_A_TASK = """\
[USER_RAISED_EXCEPTION] no such luck SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_what_python_raised_is_what_is_said():
    assert cause(PySparkException(OF_THE_SOURCE)) == (
        "no broker is listening on 127.0.0.1:1; start one with `penstock serve`\n  or say where it is"
    )


def test_javas_frames_are_left_out():
    assert (
        cause(PySparkException(OF_A_TASK)) == "[USER_RAISED_EXCEPTION] no such luck SQLSTATE: P0001"
    )


class OfJavaError(Exception):
    """As py4j writes an exception that Spark has no class for."""

    def __str__(self):
        where = "org.apache.hadoop.fs.FileSystem.primitiveMkdir(FileSystem.java:1360)"
        failure = "java.io.IOException: mkdir of file:/proc/zz failed"
        return f"An error occurred while calling o58.start.\n: {failure}\n\tat {where}\n"


def test_what_java_raised_is_said_without_who_called_it():
    assert cause(OfJavaError()) == "java.io.IOException: mkdir of file:/proc/zz failed"


OF_A_LOSS = """\
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
planPartitions: penstock.spark.data_loss.LossError: offsets from 3 to 20 of 'pump/7' were removed by \
retention before they were read
  to go on without them set failOnDataLoss=false: each loss is then told in the topic
 SQLSTATE: 38000
"""

OF_A_BUG = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost \
task 0.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "udf.py", line 3, in double
    return row["x"] * 2
           ~~~^^^^^
KeyError: 'x'
"""


def test_after_a_loss_the_flag_is_named_that_goes_on():
    said = failure("archive", PySparkException(OF_A_LOSS))
    assert said.message == (
        "archive failed: offsets from 3 to 20 of 'pump/7' were removed by retention before they"
        " were read"
    )
    assert "would fail again" in said.advice
    assert "--ignore-loss" in said.advice
    assert "failOnDataLoss" not in str(said)


def test_after_another_failure_the_same_command_goes_on():
    assert (
        "run the same command again to resume"
        in failure("rollup", PySparkException(OF_A_TASK)).advice
    )


def test_the_cause_comes_before_the_traceback_of_a_bug():
    said = cause(PySparkException(OF_A_BUG))
    assert said.startswith("KeyError: 'x'\nTraceback")
    assert 'return row["x"] * 2' in said


def test_a_long_story_is_cut():
    assert len(cause(PySparkException("x" * 10_000))) <= CAUSE_CHARACTERS + 4
