"""OpenAPI and Swagger descriptions to one section an operation, and one a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from ingest.blocks import Parsed, TextBuilder
from ingest.parsers.markdown import parse_markdown
from ingest.tables import labelled_rows, row_line
from rag.errors import InvalidInput
from rag.values import Facets, Scalar

Json: TypeAlias = Any
Object: TypeAlias = Mapping[str, Json]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
MAX_DEPTH = 12  # of objects written inside objects; deeper ones are named by type
MAX_TYPE_DEPTH = 3  # of types in types: an array of arrays of one thing or another
MAX_REFERENCES = 20  # a longer chain of $ref leads nowhere
MAX_ROWS = 100_000  # YAML aliases can stand for far more fields than are written
PARAMETER_COLUMNS = ("Parameter", "In", "Type", "Required", "Description")
FIELD_COLUMNS = ("Field", "Type", "Required", "Description")
RESPONSE_COLUMNS = ("Status", "Description", "Returns", "Headers")


def describes_api(value: Json) -> bool:
    """Whether a parsed JSON or YAML document says that it is an OpenAPI or Swagger description."""
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in ("openapi", "swagger"))


def render_api(spec: Object) -> Parsed:
    """The operations, webhooks and schemas of an API description, in its order; only local references are followed."""
    return _Renderer(spec).render()


class _Renderer:
    def __init__(self, spec: Object) -> None:
        self._spec = spec
        self._document = TextBuilder()
        self._rows = 0

    def render(self) -> Parsed:
        info = _object(self._spec.get("info"))
        title = _line(info.get("title")) or "API"
        self._document.add("heading", title, level=1)
        self._prose(info.get("description"))
        servers = [_line(_object(server).get("url")) for server in _list(self._spec.get("servers"))]
        self._document.add("paragraph", _labelled("Servers", servers))
        for path, item in _object(self._spec.get("paths")).items():
            self._path_item(str(path), item, "")
        for name, item in _object(self._spec.get("webhooks")).items():
            self._path_item(str(name), item, " (webhook)")
        components = _object(self._spec.get("components")).get("schemas") or self._spec.get("definitions")
        for name, schema in _object(components).items():
            self._document.add("heading", f"Schema {_line(name)}", level=2)
            self._schema(schema)
        version = _line(info.get("version"))
        metadata: dict[str, Scalar] = {"version": version} if version else {}
        return self._document.parsed(Facets(title=title, metadata=metadata))

    def _path_item(self, path: str, item: Json, note: str) -> None:
        shared = self._resolved(item)
        for method, operation in shared.items():
            if str(method).lower() in METHODS and isinstance(operation, dict):
                self._operation(f"{str(method).upper()} {path}{note}", operation, _list(shared.get("parameters")))

    def _operation(self, name: str, operation: Object, shared: list[Json]) -> None:
        self._document.add("heading", name, level=2)
        self._document.add("paragraph", _line(operation.get("summary")))
        self._prose(operation.get("description"))
        facts = (
            "Deprecated" if _true(operation.get("deprecated")) else "",
            _labelled("Operation", [_line(operation.get("operationId"))]),
            _labelled("Tags", map(_line, _list(operation.get("tags")))),
            _labelled("Security", (_line(key) for way in _list(operation.get("security")) for key in _object(way))),
        )
        self._document.add("paragraph", "; ".join(filter(None, facts)))
        self._parameters([self._resolved(parameter) for parameter in (*shared, *_list(operation.get("parameters")))])
        self._request(self._resolved(operation.get("requestBody")))
        self._responses(_object(operation.get("responses")))
        for event, callback in _object(operation.get("callbacks")).items():
            for url, item in self._resolved(callback).items():
                self._callback(f" (callback {_line(event)} of {name})", str(url), item)

    def _callback(self, note: str, url: str, item: Json) -> None:
        if note.count("(callback") <= 1:  # a callback's own callbacks could go in circles
            self._path_item(url, item, note)

    def _parameters(self, parameters: list[Object]) -> None:
        # an operation's own parameter replaces the path's
        own = {(_line(p.get("name")), _line(p.get("in"))): p for p in parameters if p.get("in") != "body"}
        self._table("Parameters", PARAMETER_COLUMNS, (self._parameter(*key, own[key]) for key in own))
        for body in (p for p in parameters if p.get("in") == "body"):
            self._request({**body, "content": {"body": body}})

    def _parameter(self, name: str, place: str, parameter: Object) -> tuple[str, ...]:
        media = next((_object(media) for media in _object(parameter.get("content")).values()), {})
        schema = parameter.get("schema") or media.get("schema") or parameter
        required = "yes" if _true(parameter.get("required")) else ""
        words = _line(parameter.get("description")) or _line(self._resolved(schema).get("description"))
        return name, place, self._type(schema), required, words

    def _request(self, body: Object) -> None:
        media_types: dict[object, list[str]] = {}
        schemas: dict[object, Json] = {}
        for media_type, media in _object(body.get("content")).items():
            schema = _object(media).get("schema")
            key: object = _line(_object(schema).get("$ref")) or id(schema)
            media_types.setdefault(key, []).append(_line(media_type))
            schemas[key] = schema
        for same, schema in schemas.items():
            required = ", required" if _true(body.get("required")) else ""
            shown = f"Request body ({', '.join(media_types[same])}{required}): {self._type(schema)}".removesuffix(": ")
            self._document.add("paragraph", f"{shown}. {_line(body.get('description'))}".strip())
            self._fields(schema)

    def _responses(self, responses: Object) -> None:
        self._table("Responses", RESPONSE_COLUMNS, (self._response(*item) for item in responses.items()))

    def _response(self, status: object, value: Json) -> tuple[str, ...]:
        response = self._resolved(value)
        content = _object(response.get("content")) or ({"": response} if "schema" in response else {})
        media_types = ((_line(name), self._type(_object(media).get("schema"))) for name, media in content.items())
        returns = (" ".join(filter(None, names)) for names in media_types)
        headers = map(_line, _object(response.get("headers")))
        return _line(status), _line(response.get("description")), ", ".join(returns), ", ".join(headers)

    def _schema(self, schema: Json) -> None:
        found = self._resolved(schema)
        self._prose(found.get("description"))
        if not any(key in found for key in ("properties", "allOf")):
            self._document.add("paragraph", _labelled("Type", [self._type(found)]))
        self._fields(schema)

    def _fields(self, schema: Json) -> None:
        self._table("Fields", FIELD_COLUMNS, self._field_rows("", schema, set()))

    def _field_rows(self, path: str, schema: Json, seen: set[int]) -> Iterator[tuple[str, ...]]:
        """The schema's properties; each schema is written out once, and those named inside properties only named."""
        found = self._resolved(schema)
        if id(found) in seen or path.count(".") > MAX_DEPTH:
            return
        seen.add(id(found))
        for part in _list(found.get("allOf")):
            yield from self._field_rows(path, part, seen)
        required = _list(found.get("required"))
        for name, field in _object(found.get("properties")).items():
            own = f"{path}.{_line(name)}".lstrip(".")
            yield own, self._type(field), "yes" if name in required else "", _line(_object(field).get("description"))
            yield from self._nested(own, field, seen)
        yield from self._nested(f"{path}[]", found.get("items"), seen)

    def _nested(self, path: str, schema: Json, seen: set[int]) -> Iterator[tuple[str, ...]]:
        if schema and (path == "[]" or "$ref" not in _object(schema)):
            yield from self._field_rows(path, schema, seen)

    def _type(self, schema: Json, depth: int = 0) -> str:
        found = _object(schema)
        if reference := found.get("$ref"):
            return unquote(_line(reference).rpartition("/")[2])
        if depth > MAX_TYPE_DEPTH:
            return "object"
        if found.get("type") == "array" or "items" in found:
            kind = f"array of {self._type(found.get('items'), depth + 1)}".removesuffix(" of ")
        else:
            kinds = found.get("type")
            kind = " or ".join(map(_line, kinds)) if isinstance(kinds, list) else _line(kinds)
        for word, separator in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
            options = [self._type(option, depth + 1) for option in _list(found.get(word))[:MAX_REFERENCES]]
            kind = kind or separator.join(filter(None, options))
        return ", ".join(filter(None, (kind, *_constraints(found))))

    def _table(self, caption: str, columns: tuple[str, ...], cells: Iterator[tuple[str, ...]]) -> None:
        body = list(self._bounded(cells))
        used = tuple(name if any(row[n] for row in body) else "" for n, name in enumerate(columns))
        rows = labelled_rows(used, body)
        if rows:
            self._document.add("paragraph", f"{caption}:")
            self._document.add("table", "\n".join(map(row_line, rows)), caption=f"{caption}:", rows=rows)

    def _bounded(self, cells: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        for row in cells:
            self._rows += 1
            if self._rows > MAX_ROWS:
                raise InvalidInput(f"This API description has over {MAX_ROWS} fields when written out; split it.")
            yield row

    def _prose(self, source: Json) -> None:
        if not isinstance(source, str):
            return
        parsed = parse_markdown("\n" + source)  # the line end keeps a rule on top from being front matter
        for block in parsed.blocks:
            kind = "paragraph" if block.kind == "heading" else block.kind
            self._document.add(kind, parsed.of(block), caption=block.caption, rows=block.rows)

    def _resolved(self, value: Json) -> Object:
        """The object that *value* is or refers to within the document; what leads nowhere stays as it is."""
        found: Object = _object(value)
        for _ in range(MAX_REFERENCES):
            reference = found.get("$ref")
            target = self._target(reference) if isinstance(reference, str) else None
            if target is None:
                break
            found = target
        return found

    def _target(self, reference: str) -> Object | None:
        if not reference.startswith("#/"):
            return None
        node: Json = self._spec
        for step in reference[2:].split("/"):
            node = _object(node).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return node if isinstance(node, dict) else None


def _constraints(schema: Object) -> Iterator[str]:
    yield _line(schema.get("format"))
    yield _labelled("one of", map(_line, _list(schema.get("enum"))))
    for word in ("default", "minimum", "maximum", "pattern"):
        yield _labelled(word, [_line(schema.get(word))])


def _labelled(name: str, values: Any) -> str:
    shown = ", ".join(filter(None, values))
    return f"{name}: {shown}" if shown else ""


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _line(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or isinstance(value, dict | list) else " ".join(str(value).split())


def _true(value: Json) -> bool:
    return value is True or value == "true"  # YAML is read as texts
