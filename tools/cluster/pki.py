"""Keys and certificates of one cluster: elliptic curves, two authorities (who serves, who may come), 30 days."""

from host import run

_CONFIG = "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN=unused\n"


class Pki:
    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)
        (directory / "openssl.cnf").write_text(_CONFIG)

    def certificate(self, name):
        return self.directory / f"{name}.crt"

    def key(self, name):
        return self.directory / f"{name}.key"

    def _request(self, name, subject, extensions, *signer):
        command = ["openssl", "req", "-x509", "-config", self.directory / "openssl.cnf", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", subject, *signer,
                   "-keyout", self.key(name), "-out", self.certificate(name)]
        for extension in extensions:
            command += ["-addext", extension]
        run(command)

    def authority(self, name):
        self._request(name, f"/CN={name}", ["basicConstraints=critical,CA:TRUE", "subjectKeyIdentifier=hash",
                                            "keyUsage=critical,keyCertSign,digitalSignature"])

    def _issue(self, name, subject, authority, extensions):
        self._request(name, subject, ["basicConstraints=critical,CA:FALSE", "authorityKeyIdentifier=keyid", *extensions],
                      "-CA", self.certificate(authority), "-CAkey", self.key(authority))

    def server(self, name, hosts):
        alternatives = ",".join(f"IP:{h}" if h[0].isdigit() else f"DNS:{h}" for h in hosts)
        self._issue(name, f"/CN={name}", "server-ca",
                    ["extendedKeyUsage=serverAuth", f"subjectAltName={alternatives}"])

    def client(self, name, user, group=None):
        subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
        self._issue(name, subject, "client-ca", ["extendedKeyUsage=clientAuth"])

    def key_pair(self, name):
        run(["openssl", "ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out", self.key(name)])
        run(["openssl", "ec", "-in", self.key(name), "-pubout", "-out", self.directory / f"{name}.pub"])
