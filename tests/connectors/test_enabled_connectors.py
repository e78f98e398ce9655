"""Which connectors a worker has: those with a section of its headway.toml, read strictly."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from headway import Headway
from headway.connectors import ConnectorKind, enabled
from headway.errors import ConfigError, ConnectorFailed, InvalidPayload


class Echo(ConnectorKind):
    """Answers with its fields; fails as they say."""

    connector = "test.echo"
    about = "Say it again"
    payload_schema: ClassVar[Any] = {"type": "object", "required": ["say"], "properties": {"say": {}}}
    keys = ("loud",)
    defaults: ClassVar[Any] = {"max_attempts": 3}

    async def perform(self, ctx: Any, fields: dict[str, Any]) -> Any:
        match fields["say"]:
            case "later":
                raise ConnectorFailed("busy", delay_s=3_600)
            case "never":
                raise ConnectorFailed("no such thing", retry=False)
        return {"said": fields["say"], "networks": [str(each) for each in self.resources.networks]}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = ModuleType("echo_connector")
    module.Connector = Echo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "echo_connector", module)
    monkeypatch.setitem(enabled.CONNECTORS, "test.echo", "echo_connector")
    monkeypatch.setitem(enabled.CONNECTORS, "test.missing", "headway_lacks_this")
    monkeypatch.setenv("HEADWAY_CONFIG", str(tmp_path / "headway.toml"))
    return tmp_path / "headway.toml"


def test_a_section_makes_a_kind_whose_errors_say_what_to_do_next(file: Path) -> None:
    file.write_text(
        '[connectors]\nallow_networks = ["10.1.0.0/16"]\n[connectors.test.echo]\nqueue = "calls"\nloud = true\n'
    )
    app = Headway(f"sqlite:///{file.parent}/work.db")
    kind = app.kinds["connector.test.echo"]
    assert (kind.options.queue, kind.options.max_attempts, kind.description) == ("calls", 3, "Say it again")  # type: ignore[attr-defined]
    assert not app.kinds.has_code
    with pytest.raises(InvalidPayload, match="say"):
        app.enqueue("connector.test.echo", {})
    ids = [app.enqueue("connector.test.echo", {"say": say}).id for say in ({"$secret": "A"}, "later", "never")]
    app.run(until_idle=True)
    said, later, never = (app.get(each) for each in ids)
    # references reach the connector unresolved
    assert app.result(said.id).value == {"said": {"$secret": "A"}, "networks": ["10.1.0.0/16"]}
    assert (later.status, later.tries, later.error) == ("scheduled", 1, "busy")
    assert (later.scheduled_for - later.created_at).total_seconds() > 3_500  # type: ignore[operator]
    assert (never.status, never.tries, never.error) == ("dead", 1, "no such thing")
    app.close()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[connectors]\nallow_network = []", "unknown key 'allow_network': did you mean 'allow_networks'"),
        ('[connectors]\nallow_networks = ["10.0.0.0/33"]', "'10.0.0.0/33', which is no network"),
        ("[connectors.tset.echo]", "unknown key 'tset': did you mean 'test'"),
        ("[connectors.test.ecco]", "unknown key 'ecco': did you mean 'echo'"),
        ("[connectors.test.echo]\nquue = 'x'", "unknown key 'quue': did you mean 'queue'"),
        ("[connectors.test.echo]\nmax_attempts = 0", "[connectors.test.echo] max_attempts"),
        ("[connectors.test.missing]", "pip install 'headway-engine[connectors]'"),
        ("[connectors.test]\necho = 1", "[connectors.test.echo] is not a table"),
    ],
)
def test_a_section_is_read_strictly(file: Path, text: str, fault: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        _ = Headway(f"sqlite:///{file.parent}/work.db").kinds
    assert fault in str(raised.value)
