"""The authority for development: its certificates work for their hosts and in their time."""

import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kohort.cli.app import command_line
from kohort.security.certs import DevAuthority

FILES = ("ca.pem", "broker.pem", "client.pem")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command_line(["certs", "data"]), ["certs", "dev", *arguments])
    return done.exit_code, done.output


def handshake(folder: Path, host: str) -> ssl.SSLObject:
    """Both sides in memory, each with a certificate the other one demands; the client's side."""
    accepts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepts.load_cert_chain(folder / "broker.pem")
    accepts.load_verify_locations(folder / "ca.pem")
    accepts.verify_mode = ssl.CERT_REQUIRED
    connects = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    connects.load_cert_chain(folder / "client.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = connects.wrap_bio(down, up, server_hostname=host)
    server = accepts.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert server.getpeercert()
    return client


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "broker.test"])
def test_the_files_of_certs_dev_make_a_handshake_with_certificates_on_both_sides(
    tmp_path: Path, host: str
) -> None:
    assert run("--out", str(tmp_path / "made" / "here"), "--host", "broker.test")[0] == 0
    client = handshake(tmp_path / "made" / "here", host)
    assert client.version() == "TLSv1.3"


def test_only_the_owner_can_read_the_files_also_those_that_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("mine")
    code, _ = run("--out", str(tmp_path))
    assert (code, (tmp_path / "client.pem").read_text()) == (2, "mine")
    assert run("--out", str(tmp_path), "--force")[0] == 0
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES} == {0o600}
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(FILES)


def test_a_host_that_is_not_named_and_an_expired_certificate_are_refused(tmp_path: Path) -> None:
    authority = DevAuthority(datetime.now(UTC))
    (tmp_path / "ca.pem").write_text(authority.certificate)
    (tmp_path / "client.pem").write_text(authority.issue("client"))
    for hosts, days, why in [(["elsewhere.test"], 1, "Hostname mismatch"), (["localhost"], -1, "expired")]:
        (tmp_path / "broker.pem").write_text(authority.issue("broker", hosts, days=days))
        with pytest.raises(ssl.SSLCertVerificationError, match=why):
            handshake(tmp_path, "localhost")


def test_a_host_may_have_a_name_in_any_script_and_what_is_none_is_refused(tmp_path: Path) -> None:
    assert run("--out", str(tmp_path), "--host", "bücher.test")[0] == 0
    assert handshake(tmp_path, "xn--bcher-kva.test").version() == "TLSv1.3"
    code, output = run("--out", str(tmp_path / "none"), "--host", "ü" * 70)
    assert code == 2
    assert "is not the name of a host" in output
    assert not (tmp_path / "none").exists()
