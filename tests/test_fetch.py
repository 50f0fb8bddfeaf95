"""Downloads from a server that stalls, hangs up, redirects, ignores what it is asked and sends wrong bytes."""

import gzip
import hashlib
import io
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lossgap as lg
from lossgap.cli import main
from lossgap.datasets import catalogue, fetch, home
from lossgap.datasets.catalogue import CATALOGUE, File, Published, Source
from lossgap.datasets.download import Checksum, Patience, Unavailable, download

CONTENT = np.random.default_rng(0).bytes(300_000)
QUICKLY = Patience(stalled_seconds=0.3, pause_seconds=0, tries=3)


def checksum(content: bytes, kind: str = "sha256") -> Checksum:
    return Checksum(kind, hashlib.new(kind, content).hexdigest())


class Handler(BaseHTTPRequestHandler):
    """What it does follows from the first part of the path; what it was asked is noted down."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        getattr(self, self.path.strip("/").split("/")[0].replace("-", "_"))()

    def log_message(self, *_: object) -> None: ...

    @property
    def start(self) -> int:
        return int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))

    def send(self, body: bytes, *, announced: int | None = None, start: int | None = None) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)

    def plain(self) -> None:
        if self.start >= len(CONTENT):
            return self.send_error(416)
        return self.send(CONTENT[self.start :], start=self.start)

    def hangs_up(self) -> None:
        rest = CONTENT[self.start :]
        self.send(rest[:70_000], announced=len(rest), start=self.start)

    def hangs_up_at_once(self) -> None:
        self.close_connection = True

    def hangs_up_once_then_starts_over(self) -> None:
        first = len(self.server.asked) == 1
        self.send(CONTENT[:70_000] if first else CONTENT, announced=len(CONTENT))

    def stalls(self) -> None:
        rest = CONTENT[self.start :]
        self.send(rest[:120_000], announced=len(rest), start=self.start)
        self.wfile.flush()
        self.server.over.wait(1.5)

    def never_answers(self) -> None:
        self.server.over.wait(1.5)

    def redirects(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/plain/elsewhere")
        self.end_headers()

    def redirects_for_ever(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.end_headers()

    def redirects_to_a_file(self) -> None:
        self.send_response(302)
        self.send_header("Location", "file:///etc/hostname")
        self.end_headers()

    def wrong(self) -> None:
        self.send(b"<html>Please log in to this network</html>")

    def wrong_in_one_byte(self) -> None:
        self.send((CONTENT[:1000] + bytes([CONTENT[1000] ^ 1]) + CONTENT[1001:])[self.start :], start=self.start)

    def too_much(self) -> None:
        self.send(CONTENT * 20)

    def other_range(self) -> None:
        if not self.start:
            return self.send(CONTENT)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - 5))
        self.end_headers()
        return self.wfile.write(CONTENT[5:])

    def gone(self) -> None:
        self.send_error(404)

    def busy(self) -> None:
        self.send_error(503)

    def busy_twice(self) -> None:
        self.plain() if len(self.server.asked) > 2 else self.send_error(503)

    def archive(self) -> None:
        self.send(self.server.archive[self.start :], start=self.start)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what some tests are about."""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.over, server.asked = True, threading.Event(), []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(running):
    running.asked.clear()
    return running


@pytest.fixture
def get(server, tmp_path):
    """Download from one address; the file it goes to."""

    def get(what: str, *, size: int | None = len(CONTENT), **options) -> Path:
        path = tmp_path / "set" / "file.bin"
        address = f"http://127.0.0.1:{server.server_port}/{what}"
        download(address, path, checksum(CONTENT), size=size, patience=QUICKLY, **options)
        return path

    return get


def ranges(server) -> list[str | None]:
    return [asked for _, asked in server.asked]


class TestDownload:
    @pytest.mark.parametrize("size", [len(CONTENT), None], ids=["size known", "size unknown"])
    @pytest.mark.parametrize(
        "what", ["plain", "hangs-up", "hangs-up-once-then-starts-over", "stalls", "redirects", "busy-twice"]
    )
    def test_the_file_arrives_whole(self, get, what, size):
        path = get(what, size=size)
        assert path.read_bytes() == CONTENT
        assert [file.name for file in path.parent.iterdir()] == ["file.bin"]

    def test_a_broken_download_goes_on_where_it_stopped(self, get, server):
        get("hangs-up")
        assert ranges(server) == [None, "bytes=70000-", "bytes=140000-", "bytes=210000-", "bytes=280000-"]

    def test_a_stalled_download_goes_on_where_it_stopped(self, get, server):
        get("stalls")
        assert ranges(server)[:2] == [None, "bytes=120000-"]

    def test_what_an_earlier_run_left_is_used(self, get, server, tmp_path):
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "file.bin.part").write_bytes(CONTENT[:250_000])
        get("plain")
        assert ranges(server) == ["bytes=250000-"]

    @pytest.mark.parametrize("size", [len(CONTENT), None], ids=["size known", "size unknown"])
    def test_an_earlier_run_may_have_got_everything(self, get, server, tmp_path, size):
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "file.bin.part").write_bytes(CONTENT)
        assert get("plain", size=size).read_bytes() == CONTENT
        assert len(server.asked) == (0 if size else 1)

    @pytest.mark.parametrize("rest", [b"x" * 100_000, b"x" * 400_000], ids=["shorter", "longer"])
    @pytest.mark.parametrize("size", [len(CONTENT), None], ids=["size known", "size unknown"])
    def test_the_beginning_of_another_file_is_thrown_away(self, get, tmp_path, rest, size):
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "file.bin.part").write_bytes(rest)
        assert get("plain", size=size).read_bytes() == CONTENT

    @pytest.mark.parametrize("what", ["hangs-up-once-then-starts-over", "other-range"])
    def test_a_server_may_ignore_which_bytes_are_asked_for(self, get, tmp_path, what):
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "file.bin.part").write_bytes(CONTENT[:1000])
        assert get(what).read_bytes() == CONTENT

    @pytest.mark.parametrize("what", ["wrong", "wrong-in-one-byte", "too-much"])
    def test_wrong_bytes_are_kept_aside_and_never_used(self, get, tmp_path, what):
        size = None if what == "wrong" else len(CONTENT)
        with pytest.raises(Unavailable, match=r"checksum is sha256 \w+, but sha256 \w+ was published") as refusal:
            get(what, size=size)
        assert [file.name for file in (tmp_path / "set").iterdir()] == ["file.bin.wrong-checksum"]
        assert str(tmp_path / "set" / "file.bin.wrong-checksum") in str(refusal.value)
        assert get("plain").read_bytes() == CONTENT

    def test_a_server_that_never_stops_is_cut_short(self, get, tmp_path):
        with pytest.raises(Unavailable):
            get("too-much")
        assert (tmp_path / "set" / "file.bin.wrong-checksum").stat().st_size < len(CONTENT) + 100_000

    @pytest.mark.parametrize("what", ["never-answers", "hangs-up-at-once", "busy"])
    def test_a_hopeless_server_is_given_up_and_what_came_is_kept(self, get, server, tmp_path, what):
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "file.bin.part").write_bytes(CONTENT[:1000])
        with pytest.raises(Unavailable, match=r"1,000 bytes are kept in .*file\.bin\.part: run the command again"):
            get(what)
        assert len(server.asked) == QUICKLY.tries
        assert get("plain").read_bytes() == CONTENT

    @pytest.mark.parametrize(
        ("what", "words"),
        [("gone", "answers 404"), ("redirects-for-ever", "answers 302"), ("redirects-to-a-file", "answers 302")],
    )
    def test_a_refusal_is_final(self, get, server, tmp_path, what, words):
        with pytest.raises(Unavailable, match=words):
            get(what)
        assert not list((tmp_path / "set").iterdir())

    def test_without_a_network_it_says_so(self, tmp_path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1 cannot be reached.*machine is online"):
            download(f"http://127.0.0.1:{port}/x", tmp_path / "x", checksum(b""), patience=QUICKLY)

    def test_a_name_that_nobody_knows_cannot_be_reached(self, tmp_path):
        with pytest.raises(Unavailable, match=r"nowhere\.invalid cannot be reached"):
            download("http://nowhere.invalid/x", tmp_path / "x", checksum(b""), patience=QUICKLY)

    def test_progress_counts_up_to_the_size(self, get):
        seen = []
        get("hangs-up", progress=seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == len(CONTENT)

    def test_an_interruption_keeps_what_has_arrived(self, get, server, tmp_path):
        def interrupt(done: int) -> None:
            if done > 100_000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            get("plain", progress=interrupt)
        kept = (tmp_path / "set" / "file.bin.part").read_bytes()
        assert 100_000 < len(kept) < len(CONTENT)
        assert CONTENT.startswith(kept)
        assert get("plain").read_bytes() == CONTENT
        assert ranges(server)[-1] == f"bytes={len(kept)}-"

    def test_a_place_that_cannot_be_written_is_named(self, server, tmp_path):
        (tmp_path / "set").write_text("a file")
        address = f"http://127.0.0.1:{server.server_port}/plain"
        with pytest.raises(lg.FileError, match=r"set cannot be written: .*LOSSGAP_DATA"):
            download(address, tmp_path / "set" / "file.bin", checksum(CONTENT), patience=QUICKLY)

    def test_a_stall_costs_no_more_than_its_patience(self, get):
        started = time.perf_counter()
        get("stalls")
        assert time.perf_counter() - started < 4


# Whole data sets


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LOSSGAP_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def one_file(server, *what: str, name: str = "file.bin", packed: bool = False) -> Published:
    addresses = tuple(f"http://127.0.0.1:{server.server_port}/{each}" for each in what)
    known = checksum(CONTENT)
    return Published(
        name="trial",
        about="a file",
        licence="none",
        page="",
        files=(File(name=name, packed=known) if packed else File(name=name, unpacked=known),),
        sources=(Source(name=name, addresses=addresses, checksum=known, size=len(CONTENT)),),
    )


class TestFetch:
    def test_what_is_there_and_right_stays(self, server, folder):
        published = one_file(server, "plain")
        assert fetch.fetch(published) == [folder / "trial" / "file.bin"]
        assert fetch.fetch(published) == []
        assert len(server.asked) == 1

    def test_what_is_wrong_is_fetched_anew(self, server, folder):
        published = one_file(server, "plain")
        fetch.fetch(published)
        (folder / "trial" / "file.bin").write_bytes(b"other")
        assert [finding.state for finding in fetch.verify(published)] == ["other contents"]
        assert fetch.fetch(published) == [folder / "trial" / "file.bin"]
        assert [finding.state for finding in fetch.verify(published)] == ["as published"]

    def test_a_second_address_is_tried(self, server, folder):
        fetch.fetch(one_file(server, "gone", "wrong-in-one-byte", "plain"), patience=QUICKLY)
        assert (folder / "trial" / "file.bin").read_bytes() == CONTENT

    def test_if_no_address_gives_it_all_reasons_and_the_way_by_hand_are_told(self, server, folder):
        with pytest.raises(lg.FileError, match=r"answers 404.*checksum is.*put it into .*trial"):
            fetch.fetch(one_file(server, "gone", "wrong-in-one-byte"), patience=QUICKLY)

    def test_an_archive_is_unpacked_and_dropped(self, server, folder):
        published = archived(server, {"a": b"first" * 1000, "b": b"second"})
        assert sorted(path.name for path in fetch.fetch(published)) == ["a.gz", "b.gz"]
        assert sorted(path.name for path in (folder / "trial").iterdir()) == ["a.gz", "b.gz"]
        assert gzip.decompress((folder / "trial" / "a.gz").read_bytes()) == b"first" * 1000
        assert [finding.state for finding in fetch.verify(published)] == ["whole", "whole"]

    def test_a_damaged_file_of_an_archive_is_found_and_fetched_anew(self, server, folder):
        published = archived(server, {"a": b"first" * 1000, "b": b"second"})
        fetch.fetch(published)
        path = folder / "trial" / "a.gz"
        path.write_bytes(path.read_bytes()[:-3])
        assert [finding.state for finding in fetch.verify(published)] == ["damaged", "whole"]
        fetch.fetch(published)
        assert [finding.good for finding in fetch.verify(published)] == [True, True]

    def test_an_archive_without_the_file_is_refused(self, server, folder):
        published = archived(server, {"a": b"first"}, promised=("a", "z"))
        with pytest.raises(lg.FileError, match=r"gzip\.zip cannot be unpacked: .*z\.gz"):
            fetch.fetch(published)
        assert not (folder / "trial" / "z.gz").exists()

    def test_a_wrong_unpacked_file_makes_way_for_the_gz(self, server, folder):
        published = archived(server, {"a": b"first"})
        (folder / "trial").mkdir(parents=True)
        bad = Published(**vars(published) | {"files": (File(name="a", unpacked=checksum(b"first")),)})
        (folder / "trial" / "a").write_bytes(b"wrong")
        fetch.fetch(bad)
        assert home.find("trial", "a") == folder / "trial" / "a.gz"
        assert (folder / "trial" / "a.wrong-checksum").read_bytes() == b"wrong"


def archived(server, contents: dict[str, bytes], promised: tuple[str, ...] | None = None) -> Published:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(f"gzip/{name}.gz", gzip.compress(content, mtime=0))
    server.archive = buffer.getvalue()
    names = promised or tuple(contents)
    source = Source(
        name="gzip.zip",
        addresses=(f"http://127.0.0.1:{server.server_port}/archive",),
        checksum=checksum(server.archive, "md5"),
        size=len(server.archive),
        members=tuple((f"{name}.gz", f"gzip/{name}.gz") for name in names),
    )
    files = tuple(File(name=name) for name in names)
    return Published(name="trial", about="", licence="", page="", files=files, sources=(source,))


class TestCatalogue:
    def test_every_file_that_a_data_set_reads_comes_from_somewhere(self):
        for published in CATALOGUE:
            brought = {name.removesuffix(".gz") for source in published.sources for name in source.brings}
            assert brought == {file.name for file in published.files}, published.name

    def test_addresses_and_checksums_are_well_formed(self):
        for source in (source for published in CATALOGUE for source in published.sources):
            assert all(address.startswith(("http://", "https://")) for address in source.addresses)
            assert len(source.checksum.digits) == {"md5": 32, "sha256": 64}[source.checksum.kind]

    def test_emnist_reads_what_is_fetched(self):
        names = {file.name for file in catalogue.CATALOGUE[0].files}
        assert {"emnist-byclass-train-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"} <= names
        assert len(names) == 20

    @pytest.mark.parametrize("name", ["mnist", "heart", "adult"])
    def test_the_real_files_are_as_published(self, real_data, name):
        assert {finding.state for finding in fetch.verify(fetch.named(name))} == {"as published"}

    def test_every_data_set_is_found_however_it_is_spelled(self):
        assert fetch.named("Fashion-MNIST").name == "fashion_mnist"
        with pytest.raises(lg.SettingError, match=r"'mnsit'.*Did you mean mnist"):
            fetch.named("mnsit")


class TestCommands:
    def run(self, *arguments: str):
        return CliRunner().invoke(main, ["data", *arguments])

    @pytest.fixture
    def trial(self, server, folder, monkeypatch):
        published = one_file(server, "plain")
        monkeypatch.setattr(catalogue, "CATALOGUE", (published,))
        monkeypatch.setattr(fetch, "CATALOGUE", (published,))
        return folder / "trial" / "file.bin"

    def test_fetch_then_list_verify_and_where(self, trial):
        assert "0 of 1" in self.run("list").output
        assert self.run("fetch", "trial").output == f"fetched {trial}\n"
        assert self.run("fetch", "trial").output == "trial: all is there already.\n"
        assert "1 of 1" in self.run("list").output
        assert self.run("verify").output.split() == ["as", "published", str(trial)]
        assert self.run("where", "trial").output.strip() == str(trial.parent)

    def test_verify_fails_for_wrong_contents(self, trial):
        self.run("fetch", "trial")
        trial.write_bytes(b"wrong")
        result = self.run("verify", "trial")
        assert result.exit_code == 1
        assert "other contents" in result.output
        assert "1 of these files are not what was published" in result.output

    def test_verify_without_any_files_says_what_to_do(self, trial):
        result = self.run("verify")
        assert result.exit_code == 0
        assert "lossgap data fetch NAME" in result.output

    def test_a_name_that_is_not_known_costs_nothing(self, trial, server):
        result = self.run("fetch", "trial", "trail")
        assert result.exit_code == 1
        assert "Did you mean trial?" in result.output
        assert not server.asked
