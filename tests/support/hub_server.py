"""A Hub on this machine: the endpoints that `huggingface_hub` uses to make and fill a model repository.

Files lie in `root/<owner>/<name>/<branch>/`. A fault is set with `POST /fault`: `refuse` (403 to every write).
"""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_onlyForTheServerOfTheTests"
USER = "tester"
LICENSES = {"apache-2.0", "mit", "cc-by-4.0", "other"}
OF_REPOSITORY = re.compile(r"/api/models/([\w.-]+/[\w.-]+)/(preupload|commit)/([^/]+)")


class HubServer(ThreadingHTTPServer):
    """Serves on a free port until it is closed; `with HubServer(folder) as server:`."""

    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.fault, self.commits, self.lock = root, None, [], threading.Lock()
        self.received = []  # every upload's name and bytes, also of what a later commit has overwritten
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that we hung up on is no error of ours."""

    def files(self, repository, branch="main"):
        """Every file of a branch and its bytes, by its path."""
        folder = self.root / repository / branch
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def read(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.received.append((self.path, data))
        return data

    def do_POST(self):
        path, body = unquote(urlsplit(self.path).path), self.read()
        match = OF_REPOSITORY.fullmatch(path)
        if path == "/fault":
            self.server.fault = json.loads(body)
            self.answer(200, {})
        elif path == "/api/validate-yaml":
            errors = [{"message": text} for text in complaints(json.loads(body)["content"])]
            self.answer(400 if errors else 200, {"errors": errors, "warnings": []})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {"error": "Invalid username or password."})
        elif self.server.fault == "refuse":
            self.answer(403, {"error": "You don't have the rights."})
        elif path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted.get('organization') or USER}/{wanted['name']}"
            (self.server.root / name).mkdir(parents=True, exist_ok=True)
            self.answer(200, {"url": f"{self.server.endpoint}/{name}", "name": name})
        elif match and match[2] == "preupload":  # no file is large here
            known = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            self.answer(200, {"files": [{"path": file["path"]} | known for file in json.loads(body)["files"]]})
        elif match:
            self.commit(match[1], match[3], [json.loads(line) for line in body.splitlines()])
        else:
            self.answer(404, {"error": f"no such endpoint: {path}"})

    def commit(self, repository, branch, lines):
        with self.server.lock:
            for line in lines[1:]:
                assert line["key"] == "file", line["key"]
                path = self.server.root / repository / branch / line["value"]["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(line["value"]["content"]))
                self.server.received.append((line["value"]["path"], path.read_bytes()))
            self.server.commits.append(lines[0]["value"]["summary"])
            sha = f"{len(self.server.commits):040x}"
        self.answer(200, {"commitUrl": f"{self.server.endpoint}/{repository}/commit/{sha}", "commitOid": sha})


def complaints(content):
    """What the Hub refuses of a model card's metadata, as far as its documentation says so."""
    match = re.match(r"---\n(.*?)\n---\n", content, re.DOTALL)
    data = yaml.safe_load(match[1]) if match else None
    if not isinstance(data, dict):
        return ["there is no metadata"]
    found = []
    if "license" in data and data["license"] not in LICENSES:
        found.append(f"license: {data['license']!r} is not known")
    for name in ("base_model", "datasets"):
        values = data.get(name, [])
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", value):
                found.append(f"{name}: {value!r} is no repository")
    tags = data.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        found.append("tags: not a list of texts")
    for model in data.get("model-index", []):
        for result in model["results"]:
            parts = [result["task"].get("type"), result["dataset"].get("type"), result["dataset"].get("name")]
            metrics = [metric.get(key) for metric in result["metrics"] for key in ("type", "value")]
            if not isinstance(model["name"], str) or None in parts + metrics or not metrics:
                found.append("model-index: incomplete")
    return found
