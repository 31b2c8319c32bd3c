"""Values with the header of a schema registry, and where their schemas come from."""

import base64
import importlib
import io
import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kohort.spark.pipelines import registry
from kohort.spark.pipelines.registry import RegistryError, RegistryLoader

descriptor_pb2: Any
descriptor_pool: Any
message_factory: Any
timestamp_pb2: Any
descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2 = (  # they have no types
    importlib.import_module(f"google.protobuf.{name}")
    for name in ("descriptor_pb2", "descriptor_pool", "message_factory", "timestamp_pb2")
)

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_decoders", {})
    monkeypatch.setattr(registry, "_missing", {})


def header(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def avro(schema: dict[str, Any], document: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), document)
    return buffer.getvalue()


def protobuf_file() -> Any:  # noqa: ANN401  # same
    """shop.proto: message Other {}; message Order { int64 id; repeated string tags; Timestamp at; map counts;
    message Line { optional int32 n; } Line line }, State state."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="n", number=1, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    optional, repeated = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=optional)
    order.field.add(name="tags", number=2, type=kinds.TYPE_STRING, label=repeated)
    stamp = ".google.protobuf.Timestamp"
    order.field.add(name="at", number=3, type=kinds.TYPE_MESSAGE, type_name=stamp, label=optional)
    order.field.add(name="state", number=4, type=kinds.TYPE_ENUM, type_name=".shop.State", label=optional)
    counts = ".shop.Order.CountsEntry"
    order.field.add(name="counts", number=5, type=kinds.TYPE_MESSAGE, type_name=counts, label=repeated)
    order.field.add(
        name="line", number=6, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.Line", label=optional
    )
    return file


def protobuf_order() -> bytes:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(protobuf_file())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    message.id, message.state = 2**60, 1
    message.tags.append("x")
    message.at.FromJsonString("2026-11-16T10:00:00Z")
    message.counts["a"] = 3
    return bytes(message.SerializeToString())


PROTOBUF_ORDER = {
    "id": 2**60,
    "tags": ["x"],
    "at": "2026-11-16T10:00:00Z",
    "state": "PAID",
    "counts": {"a": 3},
}
SECOND = b"\x02\x02"  # message indexes: one of them, and it is 1


@pytest.fixture
def load(tmp_path: Path) -> RegistryLoader:
    """Of a directory with schemas 1 (Avro), 2 (Protobuf) and 3 (JSON)."""
    (tmp_path / "1.avsc").write_text(json.dumps(ORDER))
    files = descriptor_pb2.FileDescriptorSet(file=[protobuf_file()])
    (tmp_path / "2.desc").write_bytes(files.SerializeToString())
    (tmp_path / "3.json").write_text('{"type": "object"}')
    return RegistryLoader(str(tmp_path))


def test_avro_becomes_a_document_as_json_has_it(load: RegistryLoader) -> None:
    import datetime
    from decimal import Decimal

    document = {
        "id": 7,
        "note": None,
        "raw": b"\xff",
        "price": Decimal("9.50"),
        "day": datetime.date(2026, 11, 16),
    }
    assert load(header(1) + avro(ORDER, document)) == (
        {"id": 7, "note": None, "raw": "/w==", "price": "9.50", "day": "2026-11-16"},
        None,
    )


def test_protobuf_becomes_a_document_by_its_field_names(load: RegistryLoader) -> None:
    assert load(header(2) + SECOND + protobuf_order()) == (PROTOBUF_ORDER, None)
    assert load(header(2) + b"\0") == ({}, None), "a single zero is the first message"
    assert load(header(2) + b"\x04\x02\x00" + b"\x08\x05") == ({"n": 5}, None), "a message in a message"


def test_json_is_what_is_behind_the_header(load: RegistryLoader) -> None:
    assert load(header(3) + b'{"id": 1}') == ({"id": 1}, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no header of a schema registry"),
        (b'{"id": 1}', "no header of a schema registry"),
        (b"\0\0\0", "no header of a schema registry"),
        (header(9) + b"x", "there is no schema 9 in the registry"),
        (header(1) + b"", "not of schema 1: "),
        (header(1) + b"\x02" * 60, "not of schema 1: "),
        (header(2) + b"\x80", "not of schema 2: it ends in its message indexes"),
        (header(2) + b"\x02\x12", "not of schema 2: "),
        (header(2) + SECOND + b"\xff", "not of schema 2: "),
        (header(3) + b"{", "not of schema 3: not JSON"),
    ],
)
def test_a_value_that_cannot_be_read_is_bad_for_a_reason(
    load: RegistryLoader, value: bytes, reason: str
) -> None:
    document, why = load(value)
    assert document is None
    assert why is not None
    assert why.startswith(reason)


def test_it_travels_to_tasks(load: RegistryLoader) -> None:
    assert pickle.loads(pickle.dumps(load))(header(3) + b"{}") == ({}, None)


def test_a_directory_that_does_not_exist_is_no_bad_record() -> None:
    with pytest.raises(RegistryError, match="there is no directory"):
        RegistryLoader("nowhere")(header(1))


# --- a registry over HTTP ---------------------------------------------------------------------


@pytest.fixture
def answers() -> dict[str, tuple[int, object]]:
    """What the registry answers to each path."""
    return {}


@pytest.fixture
def asked() -> list[tuple[str, str | None]]:
    """Paths and logins, in order."""
    return []


@pytest.fixture
def server(answers: dict[str, tuple[int, object]], asked: list[tuple[str, str | None]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            code, body = answers.get(self.path, (404, {"error_code": 40403}))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", str(body))
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def test_a_registry_is_asked_once_for_each_schema(
    server: str, answers: dict[str, tuple[int, object]], asked: list[tuple[str, str | None]]
) -> None:
    answers["/schemas/ids/3"] = 200, {"schemaType": "JSON", "schema": "{}"}
    load = RegistryLoader(f"http://ann:p%40ss@{server}/")
    for _ in range(3):
        assert load(header(3) + b"{}") == ({}, None)
        assert load(header(4) + b"{}") == (None, "there is no schema 4 in the registry")
    login = f"Basic {base64.b64encode(b'ann:p@ss').decode()}"
    assert asked == [("/schemas/ids/3", login), ("/schemas/ids/4", login)]


def test_a_password_is_not_sent_where_a_registry_redirects_to_and_is_not_shown(
    server: str, answers: dict[str, tuple[int, object]], asked: list[tuple[str, str | None]]
) -> None:
    answers["/schemas/ids/3"] = 302, f"http://{server}/elsewhere"
    answers["/elsewhere"] = 200, {"schemaType": "JSON", "schema": "{}"}
    load = RegistryLoader(f"http://ann:p%40ss@{server}/")
    assert load(header(3) + b"{}") == ({}, None)
    assert [(path, login is None) for path, login in asked] == [
        ("/schemas/ids/3", False),
        ("/elsewhere", True),
    ]
    assert "p%40ss" not in repr(load)


def test_schemas_that_a_schema_refers_to_are_asked_for(
    server: str, answers: dict[str, tuple[int, object]]
) -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
    cart = {"type": "record", "name": "Cart", "fields": [{"name": "item", "type": "Item"}]}
    reference = {"name": "Item", "subject": "shop/item", "version": 2}
    answers["/schemas/ids/1"] = 200, {"schema": json.dumps(cart), "references": [reference]}
    answers["/subjects/shop%2Fitem/versions/2"] = 200, {"schema": json.dumps(item)}
    assert RegistryLoader(f"http://{server}")(header(1) + b"\x0a") == ({"item": {"n": 5}}, None)


def test_protobuf_is_asked_for_as_descriptors(server: str, answers: dict[str, tuple[int, object]]) -> None:
    answers["/schemas/ids/2"] = 200, {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; …'}
    content = base64.b64encode(protobuf_file().SerializeToString()).decode()
    answers["/schemas/ids/2?format=serialized"] = 200, {"schemaType": "PROTOBUF", "schema": content}
    assert RegistryLoader(f"http://{server}")(header(2) + SECOND + protobuf_order()) == (PROTOBUF_ORDER, None)


@pytest.mark.parametrize("answer", [(500, {}), (401, {}), (200, []), (200, {"no": "schema"})])
def test_a_registry_in_trouble_is_no_bad_record(
    server: str, answers: dict[str, tuple[int, object]], answer: tuple[int, object]
) -> None:
    answers["/schemas/ids/1"] = answer
    with pytest.raises(RegistryError, match="cannot get schemas/ids/1") as failed:
        RegistryLoader(f"http://{server}")(header(1))
    assert failed.value.retriable
