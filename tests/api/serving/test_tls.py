"""The server over TLS: it answers, outlasts what is not TLS, and ends though clients keep their connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headway import Headway
from headway.api import Api
from headway.api.serving import server
from headway.api.serving.acceptor import Shares
from headway.api.serving.connection import Connection

ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and its certificate for localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "server.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, no_password) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_a_server_over_tls_answers_and_ends_though_a_client_stays(
    sqlite_migrated_path: Path, certificate: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(server, "_GOODBYE_S", 0.2)
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    api = Api(app)
    config = uvicorn.Config(
        api,
        http=Connection,
        log_config=None,
        ssl_certfile=certificate,
        ssl_keyfile=certificate,
        timeout_graceful_shutdown=60,
        timeout_keep_alive=60,
    )
    running = server._Server(config, api, Shares.alone())
    trusting = ssl.create_default_context(cafile=str(certificate))

    def not_tls(address: Any) -> bytes:
        with socket.create_connection(address, 20) as plain:
            plain.sendall(ASKED)
            return plain.recv(100)

    def stays(address: Any) -> tuple[ssl.SSLSocket, bytes]:
        """A client that keeps its connection for later, and reads nothing until then."""
        kept = trusting.wrap_socket(socket.create_connection(address, 20), server_hostname="localhost")
        kept.sendall(ASKED)
        return kept, kept.recv(100)

    async def serve() -> bytes:
        listener = socket.create_server(("127.0.0.1", 0))
        serving = asyncio.create_task(running._serve([listener]))
        while not running.started:
            await asyncio.sleep(0.001)
        assert await asyncio.to_thread(not_tls, listener.getsockname()) == b""
        kept, said = await asyncio.to_thread(stays, listener.getsockname())
        running.should_exit = True
        await asyncio.wait_for(serving, 10)
        kept.close()
        return said

    assert asyncio.run(serve()).startswith(b"HTTP/1.1 200 OK")
    app.close()
