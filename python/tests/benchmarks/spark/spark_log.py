"""Lines of Spark's event log, made up."""

import json


def task(stage, begin_ms, end_ms, reason="Success"):
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task End Reason": {"Reason": reason},
        "Task Info": {"Launch Time": begin_ms, "Finish Time": end_ms},
    }


def job(query, *stages):
    properties = {"spark.jobGroup.id": query}
    return {"Event": "SparkListenerJobStart", "Stage IDs": list(stages), "Properties": properties}


def log_in(folder, events):
    path = folder / "app-1.inprogress"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path
