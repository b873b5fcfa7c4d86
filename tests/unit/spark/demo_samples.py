"""A story to draw, with everything in it that can be drawn."""

from penstock.spark.demo.results import (
    Alert,
    BatchTiming,
    Check,
    DemoResults,
    SensorComparison,
    Window,
)

__all__ = ["full_story"]


def full_story(**changes) -> DemoResults:
    seconds = 60
    facts = {
        "version": "1.2.3",
        "seed": 11,
        "devices": 12,
        "seconds": float(seconds),
        "traffic": {
            "mqtt": [20 + second % 3 for second in range(seconds)],
            "binary": [19 - second % 2 for second in range(seconds)],
            "resp": [15 + second % 5 for second in range(seconds)],
        },
        "killed_at": 30.2,
        "back_at": 41.7,
        "rollups": {
            f"sensor-00{number}": [
                Window(float(start), 25, 17 + number, 18.5 + number + start / 60, 21 + number)
                for start in range(0, seconds, 5)
            ]
            for number in (6, 7, 8)
        },
        "alerts": [
            Alert("sensor-001", "silent", 21.5),
            Alert("sensor-001", "back", 36.0),
            Alert("sensor-005", "silent", 38.0),
            Alert("sensor-004", "gap", 30.0, "150 to 250"),
        ],
        "lag": {
            "archive": [(t / 2, 900 - abs(t / 2 - 40) * 20) for t in range(2 * seconds)],
            "rollup": [(t / 2, 700 - abs(t / 2 - 42) * 15) for t in range(2 * seconds)],
        },
        "batches": {
            "archive": [BatchTiming(t, 0.4 + t % 3 / 10, 120) for t in range(12, 60)],
            "rollup": [BatchTiming(t + 0.5, 1.2 + t % 4 / 10, 120) for t in range(14, 60, 2)],
        },
        "lines": [
            SensorComparison("sensor-001", "mqtt", "silent", 1234, 1234, 0, is_same=True),
            SensorComparison("impostor-mqtt", "mqtt", "impostor", 0, 0, 17, is_same=True),
        ],
        "checks": [
            Check("every offset is in the archive exactly once", "3,457", "3,457", is_good=True),
            Check("every signature verifies", "3,457", "3,457", is_good=True),
        ],
    }
    return DemoResults(**{**facts, **changes})
