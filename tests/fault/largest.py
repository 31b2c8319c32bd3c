"""The largest requests that are legal: every array of every API as long as frame and limits allow."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.broker.exemplars import exemplar

from kohort.broker.handlers import SERVED
from kohort.codec.compiled import decode, encode
from kohort.codec.schema import STRING, Array, Message, Primitive, Struct
from kohort.wire.apis import APIS, ApiKey

ROWS = {int(api.key): api for api in SERVED}
_HEADER = 100  # bytes, at most, of the header of a request
_TRIED = 1_000  # entries: how large is one of them?
_MOST_BYTES = 8 * 1024 * 1024  # of a Produce: most of it would be records


def largest(
    key: ApiKey, version: int, topic_id: bytes, most: int | None = None
) -> Iterator[tuple[str, Message]]:
    """Requests with one array that is as long as it may be: one entry again and again, or all different.

    ``most`` makes them shorter.
    """
    kind = APIS[key].request_class
    body = encode(exemplar(key, topic_id), version)

    def make() -> Message:
        return decode(kind, version, body)

    for path in _arrays(make(), version):
        name = ".".join(path)
        yield f"{name}, the same", _filled(make, path, version, most, different=False)
        yield f"{name}, different", _filled(make, path, version, most, different=True)


def newest_and_oldest() -> Iterator[tuple[ApiKey, int]]:
    for api in SERVED:
        yield api.key, api.newest
        if api.oldest != api.newest:
            yield api.key, api.oldest


def _arrays(struct: Struct, version: int) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        value = getattr(struct, field.name)
        if not field.versions.includes(version) or not isinstance(field.type, Array) or not value:
            continue
        yield (field.name,)
        if isinstance(value[0], Struct):
            for path in _arrays(value[0], version):
                yield (field.name, *path)


def _filled(
    make: Callable[[], Message], path: tuple[str, ...], version: int, most: int | None, *, different: bool
) -> Message:
    request = make()
    assert request.api_key is not None
    row = ROWS[request.api_key]
    room = min(row.max_bytes, _MOST_BYTES) - _HEADER - len(encode(request, version))
    more = min(most or _TRIED, _TRIED)
    one, many = (_with(make, path, count, different) for count in (1, 1 + more))
    bytes_each = max((len(encode(many, version)) - len(encode(one, version))) / more, 1) + 2 * different
    elements_each = (_elements(many, version) - _elements(one, version)) / more
    allowed = row.max_elements - _elements(one, version)
    count = int(min(room / bytes_each - 1, allowed / elements_each, most or allowed))
    return _with(make, path, max(count, 1), different)


def _elements(struct: Struct, version: int) -> int:
    found = 0
    for field in struct.fields:
        value = getattr(struct, field.name)
        if field.versions.includes(version):
            items = value if isinstance(value, list) else [value]
            found += len(items) if isinstance(value, list) else 0
            found += sum(_elements(item, version) for item in items if isinstance(item, Struct))
    return found


def _with(make: Callable[[], Message], path: tuple[str, ...], count: int, different: bool) -> Message:
    request: Any = make()
    holder = request
    for name in path[:-1]:
        setattr(holder, name, getattr(holder, name)[:1])
        holder = getattr(holder, name)[0]
    array: list[Any] = getattr(holder, path[-1])
    entry = array[0]
    setattr(
        holder,
        path[-1],
        [_variant(entry, number) for number in range(count)] if different else [entry] * count,
    )
    return request  # type: ignore[no-any-return] # as it was made


def _variant(entry: Any, number: int) -> Any:  # noqa: ANN401 - an element of any array
    """An entry like this one, with another name or number."""
    if isinstance(entry, str):
        return f"{number:x}"
    if not isinstance(entry, Struct):
        return number if isinstance(entry, int) else entry
    copy = type(entry)(**{field.name: getattr(entry, field.name) for field in entry.fields})
    for field in entry.fields:
        value = getattr(entry, field.name)
        if field.type is STRING and value:
            setattr(copy, field.name, f"{number:x}")
            break
        if (
            isinstance(field.type, Primitive) and isinstance(value, int) and "partition" in field.name
        ) or field.name == "index":
            setattr(copy, field.name, number)
            break
    return copy
