"""An authorization server, and an MCP server that takes its tokens. The path of the issuer says how it behaves.
Prints its port. What is asked of the token endpoint is written into the file of the first argument, a line each."""
import base64
import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_plus, urlencode

tokens = {}
codes = {}
count = {"issued": 0, "calls": 0}
REFRESH = "refresh-5d20c1-quiet"
STRICT = ("strict", "meets", "slow", "registers", "typeless", "worded")
latest = {"token": REFRESH, "uses": 0}
busy = {"answers": 0}
# Clients that registered themselves, with the only address that each comes back to.
clients = {}
# Processes that have read the metadata, where the first one that asks for a token waits for another.
met = threading.Semaphore(0)
SECRET = "client-secret-9ab3-quiet"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        data = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def base(self):
        return f"http://{self.headers['Host']}"

    def do_GET(self):
        resource, issuer = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
        if self.path.startswith((resource + "/mcp", "/metadata/")):
            mode = self.path.rsplit("/", 1)[1]
            is_well_known = self.path.startswith(resource)
            if mode == "unsaid":
                self.reply(404)
                return
            named = f"{self.base()}/issuer/{mode}"
            # What such a server names comes before the well-known place, whose words would be refused.
            if mode == "elsewhere" or (is_well_known and mode in ("named", "astray")):
                named = "http://elsewhere.test"
            own = "http://other.test/mcp" if mode in ("other", "astray") else f"{self.base()}/mcp/{mode}"
            if mode == "sibling":
                own = f"{self.base()}/mcp/sib"
            self.reply(200, {"resource": own, "authorization_servers": [named]})
        elif self.path.startswith(issuer + "/issuer"):
            mode = self.path.rsplit("/", 1)[1]
            if mode == "huge":
                self.reply(200, b"{" + b" " * (1 << 20))
                return
            claims = f"{self.base()}/issuer/{'ok' if mode == 'liar' else mode}"
            about = {"issuer": claims, "token_endpoint": f"{self.base()}/token/{mode}"}
            about["authorization_endpoint"] = f"{self.base()}/authorize/{mode}"
            if mode != "proofless":
                about["code_challenge_methods_supported"] = ["S256"]
            if mode == "foreign":
                about["token_endpoint"] = "http://foreign.test/token"
            if mode.startswith("registers"):
                about["registration_endpoint"] = f"{self.base()}/register/{mode}"
            if mode == "anonymous":
                about["authorization_response_iss_parameter_supported"] = True
            if mode == "asks":
                about["scopes_supported"] = ["read", "offline_access"]
            if mode == "meets":
                met.release()
            if mode == "post":
                about["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
            self.reply(200, about)
        elif self.path.startswith("/authorize/"):
            self.authorize()
        elif self.path == "/forget":
            clients.clear()
            self.reply(200)
        else:
            self.reply(404)

    def authorize(self):
        """The page where a person logs in: this one agrees at once."""
        path, _, query = self.path.partition("?")
        mode = path.rsplit("/", 1)[1]
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(asked) + "\n")
        fits = asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
        known = asked["client_id"] == "a client" or clients.get(asked["client_id"]) == asked["redirect_uri"]
        if not fits or not known or not asked["redirect_uri"].startswith("http://127.0.0.1:"):
            self.reply(400)
            return
        given = {"state": asked["state"], "iss": f"{self.base()}/issuer/{mode}"}
        if mode == "anonymous":
            del given["iss"]
        if mode == "denies":
            given["error"] = "access_denied"
        elif mode == "mixed":
            given.update(code="code-81", iss="http://evil.test")
        else:
            given["code"] = "code-81"
            codes["code-81"] = asked
        self.reply(302, Location=f"{asked['redirect_uri']}?{urlencode(given)}")

    def redeem(self, mode, form):
        asked = codes.pop(form.get("code"), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if not asked or proof != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            self.reply(400, {"error": "invalid_grant"})
            return
        answer = {"access_token": "access-0-quiet-77e1", "token_type": "Bearer", "expires_in": 3600}
        if mode != "once":
            answer["refresh_token"] = latest["token"] = REFRESH
        self.reply(200, answer)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/token/"):
            self.token(self.path.rsplit("/", 1)[1], raw)
        elif self.path.startswith("/register/"):
            self.register(self.path.rsplit("/", 1)[1], raw)
        else:
            self.serve(self.path.rsplit("/", 1)[1], raw)

    def register(self, mode, raw):
        about = json.loads(raw)
        with open(sys.argv[1], "a") as asked:
            asked.write(json.dumps(about) + "\n")
        if mode == "registers-nobody":
            self.reply(400, {"error": "invalid_client_metadata", "error_description": "not\u200b you"})
        elif mode == "registers-secrets":
            given = {"client_id": "made-0", "client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"}
            self.reply(201, {**about, **given})
        elif mode == "registers-nameless":
            self.reply(201, about)
        elif mode == "registers-page":
            self.reply(200, b"<html>")
        else:
            made = f"made-{len(clients) + 1}"
            clients[made] = about["redirect_uris"][0]
            self.reply(201, {**about, "client_id": made})

    def token(self, mode, raw):
        form = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
        basic = self.headers.get("Authorization", "")
        if basic.startswith("Basic "):
            who, secret = base64.b64decode(basic[6:]).decode().split(":")
            form["client_id"], form["client_secret"] = unquote_plus(who), unquote_plus(secret)
            form["by"] = "basic"
        with open(sys.argv[1], "a") as asked:
            asked.write(json.dumps(form) + "\n")
        known = form.get("client_id") == "a client" or form.get("client_id") in clients
        if not known or form.get("client_secret", SECRET) != SECRET:
            self.reply(401, {"error": "invalid_client"})
            return
        if form["grant_type"] == "authorization_code":
            self.redeem(mode, form)
            return
        if mode == "echoes":
            self.reply(400, {"error": form["refresh_token"][8:]})
            return
        if mode == "scopeless":
            self.reply(400, {"error": "invalid_scope"})
            return
        if form["grant_type"] == "refresh_token" and not form.get("refresh_token", "").startswith(REFRESH):
            self.reply(400, {"error": "invalid_grant", "error_description": f"{form.get('refresh_token')} is gone"})
            return
        if mode == "meets" and latest["uses"] == 0:
            # Until another process is about to ask for one, too.
            met.acquire(timeout=60)
            met.acquire(timeout=60)
        if mode.startswith("busy"):
            busy["answers"] += 1
            if busy["answers"] % 3:
                self.reply(int(mode[4:]), b"<html>")
                return
        if mode == "slow":
            time.sleep(2)
        if mode in STRICT:
            # Whoever sends one again has stolen it: then none counts any more.
            if form.get("refresh_token") != latest["token"]:
                latest["token"] = None
                self.reply(400, {"error": "invalid_grant"})
                return
            latest["uses"] += 1
            latest["token"] = f"{REFRESH}-{latest['uses']}"
        if mode == "revoked" and count["issued"] > 0:
            self.reply(400, {"error": "invalid_grant", "error_description": "the user withdrew it"})
            return
        if mode == "html":
            self.reply(200, b"<html>")
            return
        count["issued"] += 1
        token = f"access-{count['issued']}-quiet-77e1"
        tokens[token] = time.time() + (1 if mode == "short" else 3600)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        if mode == "short":
            answer["expires_in"] = 1
        if mode == "worded":
            answer["expires_in"] = "3600"
        if mode == "typeless" and count["issued"] == 1:
            del answer["token_type"]
        if mode == "empty":
            answer["refresh_token"] = ""
        if mode in STRICT:
            answer["refresh_token"] = latest["token"]
        if mode == "rotates":
            answer["refresh_token"] = f"{REFRESH}-2"
        if mode == "never":
            tokens.clear()
        self.reply(200, answer)

    def serve(self, mode, raw):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in tokens:
            named = {"named": self.base(), "astray": self.base(), "away": "http://foreign.test"}.get(mode)
            named = f', resource_metadata="{named}/metadata/{mode}"' if named else ""
            if mode == "asks":
                named = ', scope="read files:read"'
            self.reply(401, WWW_Authenticate=f'Bearer realm="x"{named}')
            return
        request = json.loads(raw)
        if "id" not in request:
            self.reply(202)
            return
        ok = {"jsonrpc": "2.0", "id": request["id"]}
        method = request["method"]
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
            self.reply(200, {**ok, "result": {"protocolVersion": version, **about}})
        elif method == "tools/list":
            self.reply(200, {**ok, "result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call":
            if mode in ("scope", "narrow"):
                wanted = 'Bearer error="insufficient_scope", scope="files:write read"'
                self.reply(403 if mode == "scope" else 401, WWW_Authenticate=wanted)
                return
            count["calls"] += 1
            words = f"call {count['calls']} with {token.split('-')[1]}"
            # Whoever calls once with a token has used it up.
            if mode in ("ok", "rotates", "strict", "revoked", "registers"):
                tokens.pop(token)
            self.reply(200, {**ok, "result": {"content": [{"type": "text", "text": words}]}})
        else:
            self.reply(200, {**ok, "error": {"code": -32601, "message": "no such method"}})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
