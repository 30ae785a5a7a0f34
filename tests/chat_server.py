"""A real local server that speaks the chat-completions protocol, to be told what to answer and how to fail."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-secret-0123456789abcdef"


class ChatServer:
    """`answer(body)` gives the text of a reply, or (status, headers, bytes) to fail with; `requests` is what came."""

    def __init__(self, answer=lambda body: "A"):
        self.answer, self.requests, self.keys = answer, [], []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                self.requests.append(body | {"path": handler.path})
                self.keys.append(handler.headers["Authorization"])
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    said = self.answer(body)
                    status, headers, content = said if isinstance(said, tuple) else (200, {}, completion(said))
                    handler.send_response(status)
                    for name, value in ({"Content-Type": "application/json"} | headers).items():
                        handler.send_header(name, value)
                    handler.send_header("Content-Length", str(len(content)))
                    handler.end_headers()
                    handler.wfile.write(content)

            def log_message(handler, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads, self.http.block_on_close = True, False
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.http.server_close()


def completion(text, **message):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text} | message}
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    whole = {"id": "x", "object": "chat.completion", "created": 0, "model": "toy", "choices": [choice], "usage": usage}
    return json.dumps(whole).encode()


def failing(first, then="A"):
    """Answers the failures `first`, one a call, then `then`."""
    left = list(first)
    lock = threading.Lock()

    def answer(body):
        with lock:
            return left.pop(0) if left else then

    return answer


def text_of(body):
    """The words of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
