from __future__ import annotations

import json
from uuid import uuid4

import pytest

from rag.calls import NO_TOKENS, Usage
from rag.store.budgets import list_budgets
from rag.store.engine import Database
from rag.store.ledger import Settlement, settle
from rag.values import tenant_id
from tests.integration.commands import NAME, Run
from tests.integration.spending import budget, entry


async def test_budgets_are_set_shown_and_deleted_from_the_command_line(run: Run, database: Database) -> None:
    which = ("--unit", "tokens", "--period", "month")

    made = run("budget", "set", *which, "--amount", "5000000")
    shown = run("budget", "show", "--json")
    stored = await budget(database, tenant_id(NAME), "month")
    deleted = run("budget", "delete", *which)
    again = run("budget", "delete", *which)

    assert made.stdout.startswith("5000000 tokens a month: 5000000 left, 0 spent, 0 reserved; begins anew on 20")
    assert json.loads(shown.stdout)["budgets"][0]["amount"] == "5000000"
    assert stored.amount == 5_000_000
    assert (deleted.stdout, deleted.returncode) == ("no budget: nothing is limited\n", 0)
    assert (again.stderr, again.returncode) == ("rag: there is no budget of tokens by month\n", 1)


@pytest.mark.parametrize(
    ("unit", "amount", "takes"),
    [
        ("money", "lots", "US dollars, from 0 and with six decimals at most, such as 12.50"),
        ("money", "-1", "US dollars, from 0 and with six decimals at most, such as 12.50"),
        ("tokens", "1.5", "a whole number of tokens, of 12 digits at most, such as 5000000"),
    ],
)
async def test_an_amount_that_is_none_is_one_clear_error_and_no_budget(
    run: Run, database: Database, unit: str, amount: str, takes: str
) -> None:
    refused = run("budget", "set", "--unit", unit, "--period", "day", f"--amount={amount}")

    assert (refused.returncode, refused.stderr) == (1, f"rag: --amount takes {takes}, not '{amount}'\n")
    assert await list_budgets(database, tenant_id(NAME)) == []


async def test_a_budget_lowered_below_what_is_spent_is_overspent(run: Run, database: Database) -> None:
    which = ("--unit", "tokens", "--period", "month")
    run("budget", "set", *which, "--amount", "5000")
    await one_call(database)

    lowered = run("budget", "set", *which, "--amount", "1000")

    assert lowered.stdout.startswith("1000 tokens a month: overspent by 111, 1111 spent, 0 reserved; ")


async def test_a_budget_of_money_warns_of_a_model_without_a_price(run: Run) -> None:
    target = {"name": "small", "dialect": "openai", "url": "http://127.0.0.1:9/v1", "model": "qwen3"}
    chat = {"RAG_CHAT_TARGETS": json.dumps([target]), "RAG_CHAT_CHAINS": '{"answer": ["small"]}'}

    money = run("budget", "set", "--unit", "money", "--period", "day", "--amount", "1", **chat)
    tokens = run("budget", "set", "--unit", "tokens", "--period", "day", "--amount", "1", **chat)

    assert "warning: RAG_PRICES: nobody knows what 127.0.0.1/qwen3 costs" in money.stderr
    assert (money.returncode, tokens.stderr) == (0, "")
    assert money.stdout.startswith("1 US dollar a day: ")


async def test_usage_is_told_by_model_with_what_has_no_price(run: Run, database: Database) -> None:
    await one_call(database)

    told = run("usage")
    as_json = json.loads(run("usage", "--by", "feature,day", "--json").stdout)

    assert told.stdout.splitlines()[1:] == [
        "model               calls  attempts  tokens in  out  USD",
        "127.0.0.1/ours          1         2         10    1  0 and 1 attempt unknown",
        "openai/gpt-4o-mini      1         1       1000  100  0.00021",
        "total                   1         3       1010  101  0.00021 and 1 attempt unknown",
        "unknown: RAG_PRICES has no price by the name 127.0.0.1/ours",
    ]
    assert [group["feature"] for group in as_json["groups"]] == ["query"]
    assert set(as_json) == {"from", "to", "currency", "groups", "total"}


async def test_what_usage_says_is_without_a_price_is_a_name_that_the_prices_take(run: Run, database: Database) -> None:
    await one_call(database)
    name = run("usage").stdout.split()[-1]

    priced = run("usage", RAG_PRICES=json.dumps({name: [{"input": 2, "output": 8}]})).stdout

    assert "0.000028" in priced  # 10 x 2 + 1 x 8 dollars for a million
    assert "unknown" not in priced


async def test_usage_of_nothing_says_so(run: Run) -> None:
    told = run("usage", "--from", "2026-03-01", "--to", "2026-03-02")

    assert told.stdout == "2026-03-01 00:00 to 2026-03-02 00:00 UTC: nothing was used\n"


async def one_call(database: Database) -> None:
    """One call that asked two models, one of which refused it before."""
    refused = entry(3, provider="127.0.0.1", model="ours", outcome="failed", usage=NO_TOKENS)
    known = entry(1, provider="openai", model="gpt-4o-mini", usage=Usage(1000, 0, 0, 100, 0))
    unknown = entry(2, provider="127.0.0.1", model="ours", usage=Usage(10, 0, 0, 1, 0))
    ended = Settlement(uuid4(), "query", "answer", (known, unknown, refused))
    await settle(database, tenant_id(NAME), [ended])
