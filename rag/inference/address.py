"""Where a served model is found: the URLs that RAG_EMBEDDER and RAG_RERANKER take.

`https://host/v1?model=NAME&option=value`: one value for each model, so that two can be listed while an index is made
anew. The key is a setting of its own, so that the URL can be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from pydantic import SecretStr

from rag.errors import SetupError

SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Address:
    """A model, the service that computes it, and how it is used; `setting` is the variable that says so."""

    setting: str
    url: str
    model: str
    options: Mapping[str, str]
    key: SecretStr

    @property
    def key_setting(self) -> str:
        """The variable of the key."""
        return f"{self.setting}_KEY"

    def number(self, option: str) -> int | None:
        """The option as a whole number above zero, None where it is not given.

        Raises SetupError for anything else.
        """
        text = self.options.get(option)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or int(text) == 0:
            raise SetupError(f"{self.setting}: {option} must be a whole number above zero")
        return int(text)

    def fields(self, purpose: str) -> dict[str, str]:
        """What is sent beside the texts of *purpose*: each `purpose.field=value`."""
        prefix = f"{purpose}."
        return {name.removeprefix(prefix): value for name, value in self.options.items() if name.startswith(prefix)}

    def name(self, options: Iterable[str] = ()) -> str:
        """The model's name, with those of *options* that are given; the host may change without a new index."""
        given = urlencode(sorted((option, self.options[option]) for option in options if option in self.options))
        return f"remote:{self.model}" + (f"?{given}" if given else "")


def is_address(text: str) -> bool:
    """Whether *text* names a served model, and not one to load here."""
    return text.startswith(SCHEMES)


def read_address(text: str, setting: str, *, key: str, known: Iterable[str]) -> Address:
    """The address that *text* gives; *known* are its options, those that end with a dot take any field's name.

    Raises SetupError, which repeats no value: one may be a key in the wrong place.
    """
    url = _split(text, setting)
    pairs = parse_qsl(url.query, keep_blank_values=True)
    options = dict(pairs)
    model = options.pop("model", "")
    if not model:
        raise SetupError(f"{setting}: say which model, as in https://host/v1?model=NAME")
    if len(options) + 1 != len(pairs):
        raise SetupError(f"{setting}: an option is given twice")
    allowed = sorted(known)
    unknown = [name for name in options if not any(_is(name, one) for one in allowed)]
    if unknown:
        raise SetupError(f"{setting}: unknown option {', '.join(unknown)}; there are model, {', '.join(allowed)}")
    address = Address(setting, f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}", model, options, SecretStr(key))
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SetupError(f"{address.key_setting} has characters that no header carries")
    return address


def _split(text: str, setting: str) -> SplitResult:
    try:
        url = urlsplit(text)
        usable = bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable or url.fragment:
        raise SetupError(f"{setting} is not a URL such as https://host/v1?model=NAME")
    if "@" in url.netloc:
        raise SetupError(f"{setting}: the key belongs in {setting}_KEY, not in the URL")
    return url


def _is(name: str, known: str) -> bool:
    return name.startswith(known) and len(name) > len(known) if known.endswith(".") else name == known
