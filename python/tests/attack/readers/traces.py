"""Importers of a fleet's store: Google's and Alibaba's traces, any CSV, a Prometheus server's answers."""

import gzip
import http.server
import json
import threading
from collections.abc import Callable
from pathlib import Path

from steelyard.fleet.importers import alibaba, google, mapping, prometheus

from .reader import Reader, holding, out
from .settings import MAPPING

GOOGLE_2011 = {
    "task_usage/part-00000-of-00500.csv": (
        "600000000,900000000,3418309,0,4155527081,0.001562,0.06787,0.07568,0.001156,0.001503,0.06787,"
        "2.861e-06,0.0001869,0.03967,0.0003567,2.445,0.007243,0,1,0\n"
        "86400000000,86700000000,3418314,1,329150663,0.5,0.1,0.1,0,0,0.1,0,0,0.5,0,1.5,0.01,0,1,0\n"
    ),
    "task_usage/part-00001-of-00500.csv.gz": gzip.compress(
        b"600000000,900000000,3418309,1,329150663,0.25,0.05,0.05,0,0,0.05,0,0,0.5,0,,,0,1,0.1\n"
    ),
    "machine_events/part-00000-of-00001.csv": "0,4155527081,0,HofLGzk1Or/8,0.5,0.2493\n0,329150663,0,,,\n",
    "task_events/part-00000-of-00500.csv": "0,2,3418309,0,4155527081,0,user,3,9,0.125,0.07446,0.0004244,0\n",
}
INSTANCE = {
    "start_time": "600000000",
    "end_time": "900000000",
    "collection_id": "330587238433",
    "instance_index": 12,
    "machine_id": "169799318",
    "collection_type": 0,
    "average_usage": {"cpus": 0.0123, "memory": 0.004},
    "maximum_usage": {"cpus": 0.02, "memory": 0.004},
    "random_sample_usage": {"cpus": 0.01},
    "assigned_memory": 0.005,
    "cycles_per_instruction": 1.25,
    "memory_accesses_per_instruction": 0.002,
    "sample_rate": 0.99,
    "cpu_usage_distribution": [0.001, 0.02],
}
ALIBABA_2017 = {
    "container_usage.csv": (
        "39600,4,10.5,42.0,1.5,1.2,1.1,1.0,1.21,2.3,1.5,3.0\n39900,4,20,42.0,,1.2,1.1,1.0,,,,\n"
    ),
    "container_event.csv": "0,Create,4,1001,4,0.08,0.3,0|1|32|33\n0,Create,5,1002,8,0.08,0.3,2|3\n",
    "server_usage.csv": "39600,1001,31.5,40.0,50.0,10.0,11.0,12.0\n39900,1001,50,40,50,10,11,12\n",
    "server_event.csv": "0,1001,add,,64,0.69,1\n0,1002,add,,64,0.69,1\n",
}
ALIBABA_2018 = {
    "container_usage.csv": (
        "c_1,m_2556,386640,6,53,1.17,10.5,2,0.1,0.2,5\nc_1,m_2556,386650,8,53,,10.5,2,0.1,0.2,-1\n"
    ),
    "container_meta.csv": "c_1,m_2556,0,app_5052,started,400,400,1.56\n",
    "machine_usage.csv": "m_2556,386640,40,90,,,43.3,33.0,4\nm_2556,386650,101,90,,,43.3,33.0,4\n",
    "machine_meta.csv": "m_2556,0,43,11,96,100,USING\n",
}
TABLE = (
    "host,service,pod,when,cpu_ms,requests,build\n"
    '"h,1",web,web-1,1767268800500,1500,12,v2\nh2,web,web-2,1767268860000,many,,\nh3,web,web-3,1767268860000,250,NaN,\n'
)
NEW_YEAR = 1_767_225_600
ANSWER = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {
                    "__name__": "x",
                    "instance": "n1",
                    "namespace": "shop",
                    "pod": "cart-1",
                    "container": "cart",
                },
                "values": [[NEW_YEAR + 3600, "12.5"], [NEW_YEAR + 7200, "NaN"], [NEW_YEAR + 10800.5, "3"]],
            }
        ],
    },
}


def imported(take: Callable[..., object]) -> Callable[[Path], None]:
    """Return what imports the files of a folder into a store beside it."""

    def read(folder: Path) -> None:
        take([folder], str(out(folder)))

    return read


def _by_mapping(folder: Path) -> None:
    chosen = mapping.read_mapping(folder / "mapping.toml")
    mapping.import_csv([folder / "table.csv"], str(out(folder)), chosen)


class _Server:
    """Answers every question with what ``path`` holds."""

    def __init__(self) -> None:
        self.path = Path()
        whose = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = whose.path.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


_SERVERS: list[_Server] = []
"""That of this process, once it is needed."""


def _answered(folder: Path) -> None:
    if not _SERVERS:
        _SERVERS.append(_Server())
    _SERVERS[0].path = folder / "answer.json"
    source = prometheus.read_source(_SERVERS[0].url, None)
    end = NEW_YEAR + 86_400
    prometheus.import_range(source, str(out(folder)), begin_unix_s=NEW_YEAR, end_unix_s=end, step_s=3600)


def readers() -> list[Reader]:
    """Return them."""
    instances = "".join(json.dumps(INSTANCE | {"instance_index": at}) + "\n" for at in (12, 13))
    mapped = holding({"table.csv": TABLE, "mapping.toml": MAPPING})
    return [
        Reader("import google-2011", holding(GOOGLE_2011), imported(google.import_2011)),
        Reader(
            "import google-2019", holding({"instance_usage-0.json": instances}), imported(google.import_2019)
        ),
        Reader("import alibaba-2017", holding(ALIBABA_2017), imported(alibaba.import_2017)),
        Reader("import alibaba-2018", holding(ALIBABA_2018), imported(alibaba.import_2018)),
        Reader("import csv", mapped, _by_mapping),
        Reader("import prometheus", holding({"answer.json": json.dumps(ANSWER)}), _answered),
    ]
