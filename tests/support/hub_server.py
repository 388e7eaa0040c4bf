"""A Hub on this machine: the endpoints that `huggingface_hub` uses to make, fill and read a model repository.

Files lie in `root/<owner>/<name>/<branch>/`. A fault is set with `POST /fault`: `refuse` (403 to every write), `cut`
(the connection drops in the middle of a large file), `wait` (large files take until the fault ends) or `gone` (nobody
listens any more).
"""

import base64
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_onlyForTheServerOfTheTests"
USER = "tester"
LARGE = (".safetensors", ".bin", ".pt", ".pth", ".png")
LICENSES = {"apache-2.0", "mit", "cc-by-4.0", "other"}
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class HubServer(ThreadingHTTPServer):
    """Serves on a free port until it is closed; `with HubServer(folder) as server:`."""

    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.fault, self.large, self.commits, self.lock = root, None, {}, [], threading.Lock()
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

    @property
    def sha(self):
        return hashlib.sha1(str(len(self.commits)).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body=None, headers=(), content=None):
        content = json.dumps(body).encode() if content is None else content
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": len(content),
            **dict(headers),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def read(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            data = b"".join(chunks)
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.received.append((self.path, data))
        return data

    def may_write(self):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {"error": "Invalid username or password."})
        elif self.server.fault == "refuse":
            self.answer(403, {"error": "You don't have the rights."})
        else:
            return True
        return False

    # Reading.

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        if path == "/api/whoami-v2":
            return self.answer(200, {"type": "user", "name": USER, "orgs": []})
        if match := re.fullmatch(rf"/({REPOSITORY.pattern})/resolve/([^/]+)/(.+)", path):
            return self.send_file(*match.groups())
        match = re.fullmatch(rf"/api/models/({REPOSITORY.pattern})(?:/(revision|tree)/([^/]+)(?:/(.*))?)?", path)
        if match is None or not (self.server.root / match[1]).is_dir():
            return self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        files = self.server.files(match[1], "main")
        if match[2] == "tree":
            inside = {name: data for name, data in files.items() if name.startswith(match[4] or "")}
            entries = [{"type": "file", "path": n, "size": len(d), "oid": self.blob_id(d)} for n, d in inside.items()]
            return self.answer(200, entries)
        info = {
            "id": match[1],
            "modelId": match[1],
            "sha": self.server.sha,
            "siblings": [{"rfilename": f} for f in files],
        }
        return self.answer(200, info | {"private": False, "tags": [], "downloads": 0, "likes": 0})

    def send_file(self, repository, _revision, name):
        file = self.server.root / repository / "main" / name
        if not file.is_file():
            return self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        data = file.read_bytes()
        headers = {"ETag": f'"{self.blob_id(data)}"', "X-Repo-Commit": self.server.sha, "Content-Type": "text/plain"}
        return self.answer(200, headers=headers, content=data)

    def blob_id(self, data):
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    # Writing.

    def do_POST(self):
        path = unquote(urlsplit(self.path).path)
        body = self.read()
        if path == "/fault":
            self.server.fault = json.loads(body)
            if self.server.fault == "gone":
                self.server.shutdown()
                self.server.server_close()
            return self.answer(200, {})
        if path == "/api/validate-yaml":
            errors = complaints(json.loads(body)["content"])
            return self.answer(
                400 if errors else 200, {"errors": [{"message": text} for text in errors], "warnings": []}
            )
        if not self.may_write():
            return None
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if match := re.fullmatch(rf"/api/models/({REPOSITORY.pattern})/preupload/([^/]+)", path):
            return self.answer(200, {"files": [self.upload_mode(file) for file in json.loads(body)["files"]]})
        if match := re.fullmatch(rf"/({REPOSITORY.pattern})\.git/info/lfs/objects/batch", path):
            return self.answer(
                200, {"transfer": "basic", "objects": [self.action(o) for o in json.loads(body)["objects"]]}
            )
        if path == "/lfs/verify":
            wanted = json.loads(body)
            held = self.server.large.get(wanted["oid"])
            return self.answer(200 if held is not None and len(held) == wanted["size"] else 422, {})
        if match := re.fullmatch(rf"/api/models/({REPOSITORY.pattern})/commit/([^/]+)", path):
            return self.commit(*match.groups(), [json.loads(line) for line in body.splitlines()])
        return self.answer(404, {"error": f"no such endpoint: {path}"})

    def create(self, wanted):
        name = f"{wanted.get('organization') or USER}/{wanted['name']}"
        folder = self.server.root / name
        status = 409 if folder.exists() else 200
        folder.mkdir(parents=True, exist_ok=True)
        self.answer(status, {"url": f"{self.server.endpoint}/{name}", "name": name, "error": "exists"})

    def upload_mode(self, file):
        mode = "lfs" if file["path"].endswith(LARGE) else "regular"
        return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}

    def action(self, wanted):
        known = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] in self.server.large:
            return known
        endpoint = self.server.endpoint
        upload, verify = {"href": f"{endpoint}/lfs/{wanted['oid']}"}, {"href": f"{endpoint}/lfs/verify"}
        return known | {"actions": {"upload": upload, "verify": verify}}

    def do_PUT(self):
        if self.server.fault == "cut":
            self.rfile.read(100)
            self.connection.close()
            return None
        data = self.read()
        while self.server.fault == "wait":
            time.sleep(0.05)
        oid = self.path.rpartition("/")[2]
        if hashlib.sha256(data).hexdigest() != oid:
            return self.answer(400, {"error": "this is not the file that was announced"})
        self.server.large[oid] = data
        return self.answer(200, {})

    def commit(self, repository, branch, lines):
        folder = self.server.root / repository / branch
        with self.server.lock:
            for line in lines[1:]:
                value = line["value"]
                path = folder / value["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                if line["key"] == "file":
                    path.write_bytes(base64.b64decode(value["content"]))
                elif line["key"] == "lfsFile":
                    path.write_bytes(self.server.large[value["oid"]])
                else:
                    return self.answer(400, {"error": f"{line['key']} is not understood"})
                self.server.received.append((value["path"], path.read_bytes()))
            self.server.commits.append(lines[0]["value"]["summary"])
            sha = self.server.sha
        return self.answer(200, {"commitUrl": f"{self.server.endpoint}/{repository}/commit/{sha}", "commitOid": sha})


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
