"""An MCP server over streamable HTTP whose path says how it behaves. Prints its port."""
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sessions = set()
count = {"sessions": 0, "calls": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, message):
        data = f"event: message\ndata: {json.dumps(message)}\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.reply(200)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/auth" and self.headers.get("Authorization") != "Bearer quiet-6f1c77":
            self.reply(401, WWW_Authenticate='Bearer realm="x"')
            return
        if self.path == "/stranger":
            self.reply(401, {"error": "no"})
            return
        if self.path == "/redirect":
            self.reply(307, Location="/ok")
            return
        if self.path == "/broken":
            self.reply(500, {"oops": True})
            return
        if self.path == "/page":
            self.reply(200, "a page")
            return
        request = json.loads(raw)
        method = request.get("method")
        if "id" not in request:
            self.reply(202)
            return
        ok = {"jsonrpc": "2.0", "id": request["id"]}
        session = self.headers.get("Mcp-Session-Id")
        if method == "initialize":
            count["sessions"] += 1
            session = f"session-{count['sessions']}"
            sessions.add(session)
            info = {"name": "http", "version": "1"}
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            self.reply(200, {**ok, "result": result}, Mcp_Session_Id=session)
        elif session not in sessions:
            self.reply(404)
        elif method == "tools/list":
            tools = [
                {"name": name, "description": "goes", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
                for name in ["go", "lose", "hang", "fail", "large"]
            ]
            self.reply(200, {**ok, "result": {"tools": tools}})
        elif method == "tools/call":
            count["calls"] += 1
            if request["params"]["name"] == "fail":
                self.reply(503)
                return
            if request["params"]["name"] == "large":
                result = {"content": [{"type": "text", "text": "x" * (9 << 20)}]}
                self.events({**ok, "result": result})
                return
            if request["params"]["name"] == "lose":
                sessions.clear()
            words = f"{session}, call {count['calls']}"
            with open(sys.argv[1], "a") as log:
                log.write(words + "\n")
            if request["params"]["name"] == "hang":
                time.sleep(1000)
            self.reply(200, {**ok, "result": {"content": [{"type": "text", "text": words}]}})
        else:
            self.reply(200, {**ok, "error": {"code": -32601, "message": "no such method"}})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
