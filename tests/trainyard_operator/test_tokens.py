"""What is remembered of bearer tokens: for how long, of how many, and what trying them costs."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.fake_api import eventually, run
from trainyard_operator.serve import tokens
from trainyard_operator.serve.tokens import ATTEMPTS_BURST, KNOWN_FOR, REVIEWS_AT_A_TIME, RefusedTokenError


class Scene:
    """The tokens of a server, and an API server that finds each token's name in capital letters."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tokens = tokens.Tokens[str](lambda: self.now)
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def find(self, token: str, address: str = "10.0.0.1") -> str:
        async def ask() -> str:
            self.asked.append(token)
            await self.answers.wait()
            return token.upper()

        return await self.tokens.find(token, address, ask)

    async def newly_asked(self, *names: str) -> list[str]:
        """Those of the tokens, looked for in this order, that are asked about."""
        before = len(self.asked)
        assert [await self.find(name) for name in names] == [name.upper() for name in names]
        return self.asked[before:]


def test_a_token_is_known_for_a_minute() -> None:
    async def test() -> None:
        s = Scene()
        for at, asked in ((5.0, ["a"]), (5.0 + KNOWN_FOR - 1, []), (5.0 + KNOWN_FOR, ["a"])):
            s.now = at
            assert await s.newly_asked("a") == asked

    run(test)


def test_of_too_many_tokens_the_one_that_was_asked_about_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "MOST_KNOWN", 3)

    async def test() -> None:
        s = Scene()
        assert await s.newly_asked("a", "b", "c") == ["a", "b", "c"]
        assert await s.newly_asked("a", "b", "c") == [], "as many are remembered as may be"
        assert await s.newly_asked("d", "b", "c", "d") == ["d"]
        assert await s.newly_asked("a") == ["a"]

    run(test)


def test_a_token_that_was_asked_about_anew_is_not_the_first_to_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "MOST_KNOWN", 2)

    async def test() -> None:
        s = Scene()
        await s.newly_asked("a")
        s.now = KNOWN_FOR - 1
        await s.newly_asked("b")
        s.now = KNOWN_FOR
        assert await s.newly_asked("a") == ["a"]
        assert await s.newly_asked("c", "a") == ["c"]

    run(test)


def test_an_address_that_tries_too_many_tokens_waits_and_others_do_not() -> None:
    async def test() -> None:
        s = Scene()
        names = [str(number) for number in range(ATTEMPTS_BURST)]
        await s.newly_asked(*names)
        with pytest.raises(RefusedTokenError, match="too many tokens in a short time") as caught:
            await s.find("new")
        assert (caught.value.code, caught.value.retry_after) == (429, 0.2)
        assert await s.newly_asked(*names) == [], "what is known costs nothing"
        assert await s.find("new", "10.0.0.2") == "NEW"
        s.now = 0.2
        assert await s.newly_asked("another") == ["another"]

    run(test)


def test_the_api_server_is_asked_about_only_so_many_tokens_at_a_time() -> None:
    async def test() -> None:
        s = Scene()
        s.answers.clear()
        names = [str(number) for number in range(REVIEWS_AT_A_TIME + 3)]
        finding = [asyncio.create_task(s.find(name, f"10.0.1.{name}")) for name in names]
        await eventually(lambda: len(s.asked) >= REVIEWS_AT_A_TIME)
        await asyncio.sleep(0)
        assert s.asked == names[:REVIEWS_AT_A_TIME]
        s.answers.set()
        assert await asyncio.gather(*finding) == names
        assert s.asked == names

    run(test)
