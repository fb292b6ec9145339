from __future__ import annotations

import json
from uuid import uuid4

from rag.calls import Usage
from rag.store.engine import Database
from rag.store.ledger import Entry, Settlement, settle
from rag.values import tenant_id
from tests.integration.commands import NAME, Run
from tests.integration.spending import attempt, budget


async def test_budgets_are_set_shown_and_deleted_from_the_command_line(run: Run, database: Database) -> None:
    which = ("--unit", "tokens", "--period", "month")

    made = run("budget", "set", *which, "--amount", "5000000")
    shown = run("budget", "show", "--json")
    stored = await budget(database, tenant_id(NAME), "month")
    deleted = run("budget", "delete", *which)
    again = run("budget", "delete", *which)

    assert made.stdout.startswith("5000000 tokens a month: 5000000 left, 0 spent, 0 reserved; begins anew at 20")
    assert json.loads(shown.stdout)["budgets"][0]["amount"] == "5000000"
    assert stored.amount == 5_000_000
    assert (deleted.stdout, deleted.returncode) == ("no budget: nothing is limited\n", 0)
    assert (again.stderr, again.returncode) == ("rag: there is no budget of tokens by month\n", 1)


async def test_an_amount_that_is_none_is_one_clear_error(run: Run) -> None:
    refused = run("budget", "set", "--unit", "money", "--period", "day", "--amount", "lots")

    assert refused.returncode == 1
    assert refused.stderr.startswith("rag: --amount 'lots': ")
    assert "Traceback" not in refused.stderr


async def test_usage_is_told_by_model_with_what_has_no_price(run: Run, database: Database) -> None:
    await one_call(database)

    told = run("usage")
    as_json = json.loads(run("usage", "--by", "feature,day", "--json").stdout)

    assert told.stdout == (
        "127.0.0.1/ours  1 calls, 10 tokens in, 1 out: 0 US dollars and what 127.0.0.1/ours costs, which RAG_PRICES"
        " does not say\n"
        "openai/gpt-4o-mini  1 calls, 1000 tokens in, 100 out: 0.00021 US dollars\n"
        "total  1 calls, 1010 tokens in, 101 out: 0.00021 US dollars and what 127.0.0.1/ours costs, which RAG_PRICES"
        " does not say\n"
    )
    assert [group["feature"] for group in as_json["groups"]] == ["query"]
    assert set(as_json) == {"from", "to", "currency", "groups", "total"}


async def one_call(database: Database) -> None:
    """One call that asked two models."""
    known = attempt(1, provider="openai", model="gpt-4o-mini", usage=Usage(1000, 0, 0, 100, 0))
    unknown = attempt(2, provider="127.0.0.1", model="ours", usage=Usage(10, 0, 0, 1, 0))
    ended = Settlement(uuid4(), "query", "answer", (Entry(known, None), Entry(unknown, None)))
    await settle(database, tenant_id(NAME), [ended])
