"""The certificate of a host for the handlers that connect to it, made for this host alone."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.text import extra_remedy


class Certificate(NamedTuple):
    """A certificate that nobody has signed: its digest, which goes along with calls, is trusted.

    Args:
        tls: The host's side of TLS.
        digest: Its SHA-256.
    """

    tls: ssl.SSLContext
    digest: str

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Make one, in a folder that only this user can read.

        Raises:
            ConfigurationError: The package cryptography is not installed.
        """
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise ConfigurationError(
                "plugins.workers.address needs cryptography, which is not installed. "
                f"{extra_remedy('dbos')}."
            ) from error
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "toolstile")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = folder / "host.pem"
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(file)
        file.unlink()
        return cls(tls, sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest())
