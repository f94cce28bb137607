"""A self-made TLS certificate, as every iDRAC has one. The only module that imports cryptography."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from harness.clock import wall_time


@dataclass(frozen=True)
class Certificate:
    """Certificate and key as PEM files, and the pin a bench file would carry (``sha256:`` and 64 hex digits)."""

    pem: Path
    key: Path
    pin: str


def make_certificate(folder: Path, name: str = "127.0.0.1") -> Certificate:
    """Make a key and a certificate for the host ``name``, good for ten years as an iDRAC's own is.

    Needs the ``lab`` extra (cryptography).
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "model-idrac")])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    now = wall_time()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    der = certificate.public_bytes(serialization.Encoding.DER)
    return Certificate(pem, secret, f"sha256:{hashlib.sha256(der).hexdigest()}")
