"""What operator/nginx.conf does, for a machine without nginx: TLS, one path let through, everything else refused."""

import http.client
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def open_path(nginx_conf: Path) -> str:
    """The one location of the configuration that is passed on."""
    (path,) = re.findall(r"location (\S+) \{[^}]*?proxy_pass", nginx_conf.read_text())
    return str(path)


@contextmanager
def door(secrets: Path, behind: int, path: str) -> Iterator[int]:
    """The port of a door to the SuperLink on port `behind`."""
    trusted = ssl.create_default_context(cafile=str(secrets / "ca.crt"))

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, kind, answer = 403, "text/plain", b""
            if self.path.startswith(path):
                server = http.client.HTTPSConnection("127.0.0.1", behind, context=trusted, timeout=60)
                server.request("POST", self.path, body, dict(self.headers.items()))
                reply = server.getresponse()
                status, kind, answer = reply.status, reply.headers.get("content-type", ""), reply.read()
                server.close()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secrets / "server.crt", secrets / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
