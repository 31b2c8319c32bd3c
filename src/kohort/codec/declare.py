"""Declare a struct with annotated attributes; the generated messages write the same out in full.

@declared
class Point(Struct):
    x: int = field(INT32)
    label: str | None = field(STRING, nullable=ALWAYS, default=None)
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform

from kohort.codec.schema import ALWAYS, NEVER, UNSET, Field, FieldType, Struct, Versions

S = TypeVar("S", bound=Struct)


def field(
    of: FieldType,
    *,
    versions: Versions = ALWAYS,
    nullable: Versions = NEVER,
    default: object = UNSET,
    tag: int | None = None,
) -> Any:  # noqa: ANN401  # what stands behind "=" has the type of the annotation
    """A field of a declared struct; its constructor must be given those without a default."""
    return Field("", of, versions, nullable, default, tag)


@dataclass_transform(field_specifiers=(field,))
def declared(struct: type[S]) -> type[S]:
    """The struct with its fields in the order of the class body, slots for them, and a constructor."""
    body = {name: value for name, value in vars(struct).items() if name not in _OF_EVERY_CLASS}
    fields = tuple(
        body.pop(name)._replace(name=name) for name in tuple(body) if isinstance(body[name], Field)
    )
    names = tuple(entry.name for entry in fields)
    body |= {"fields": fields, "__slots__": names, "__match_args__": names, "__init__": _constructor(fields)}
    return cast(type[S], type(struct.__name__, struct.__bases__, body))


_OF_EVERY_CLASS = frozenset({"__dict__", "__weakref__"})


def _constructor(fields: tuple[Field, ...]) -> Callable[..., None]:
    """Compiled, as that of a dataclass: masses of records are made."""
    defaults = {f"default_{entry.name}": entry.default for entry in fields if entry.default is not UNSET}
    parameters = [
        entry.name if entry.default is UNSET else f"{entry.name}=default_{entry.name}" for entry in fields
    ]
    lines = [f"    self.{entry.name} = {entry.name}" for entry in fields]
    namespace: dict[str, Any] = {}
    exec(f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines), defaults, namespace)
    made: Callable[..., None] = namespace["__init__"]
    return made
