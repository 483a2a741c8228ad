"""Certificates for the tests, made by the openssl program when they are needed."""

import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)


class Authority:
    """An authority of its own; `file` is what those who trust it are given."""

    def __init__(self, home, name="authority"):
        self.home = home
        self.file, self._key = home / f"{name}.pem", home / f"{name}.key"
        _openssl("req", "-x509", *KEY, "-nodes", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.file)

    def certificate(self, name, hosts="DNS:localhost,IP:127.0.0.1", password=None):
        """The files of a certificate for these hosts and of its key, which only its owner can read."""
        certificate, key = self.home / f"{name}.pem", self.home / f"{name}.key"
        secret = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        issuer = ["-CA", self.file, "-CAkey", self._key]
        names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={hosts}"]
        _openssl("req", "-x509", *KEY, *secret, *issuer, *names, "-keyout", key, "-out", certificate)
        key.chmod(0o600)
        return certificate, key
