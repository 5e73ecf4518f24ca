"""Keys are told apart by their digests, expire, and are held to a pace."""

import hmac
import logging
from datetime import UTC, datetime, timedelta

import pytest

from loom_ia.assembly.api_keys import key_ring
from loom_ia.config.root import LoomConfig
from loom_ia.config.server import ApiKeySpec, RateLimit, Security
from loom_ia.core.errors import KeyRefused, RateLimited
from loom_ia.tenancy import keys
from loom_ia.tenancy.keys import LONGEST, ApiKey, KeyRing, digest_of, new_key
from loom_ia.tenancy.visitor import EVERYBODY

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class Time:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 100.0)

    def monotonic(self) -> float:
        return self.seconds


def _ring(*declared: ApiKey, time: Time | None = None) -> KeyRing:
    time = time or Time()
    return KeyRing(declared, now=time.now, seconds=time.monotonic)


def test_a_key_is_256_bits_and_its_digest_says_nothing_of_it() -> None:
    """Two keys differ, begin with lk_, fit in a header, and the digest has the form to declare."""
    secret, digest = new_key()
    other, _ = new_key()
    assert secret != other
    assert secret.startswith("lk_")
    assert len(secret) == 3 + 43  # 256 bits in base64
    assert secret.isascii()
    ApiKeySpec(id="a", hash=digest)
    assert digest == digest_of(secret)


def test_the_key_alone_says_who_comes() -> None:
    """Scopes, agents and client are those that were declared with the key."""
    first, of_first = new_key()
    second, of_second = new_key()
    ring = _ring(
        ApiKey("a", of_first, frozenset({"run"}), frozenset({"devis"})),
        ApiKey("b", of_second, frozenset({"read"}), tenant_id="dupont"),
    )
    assert not ring.is_open
    visitor = ring.visitor(first)
    assert (visitor.name, visitor.tenant_id) == ("a", "default")
    assert visitor.may("run")
    assert not visitor.may("read")
    assert visitor.sees("devis")
    assert not visitor.sees("relance")
    assert ring.visitor(second).tenant_id == "dupont"


def test_without_any_key_everybody_is_let_in() -> None:
    """No key declared: whatever is presented, or nothing, opens."""
    ring = _ring()
    assert ring.is_open
    assert ring.visitor(None) is EVERYBODY
    assert ring.visitor("lk_anything") is EVERYBODY


@pytest.mark.parametrize(
    "presented",
    [None, "", "lk_wrong", "é" * 20, "\udcff", "\x00", "lk_" + "a" * LONGEST],
)
def test_what_is_no_key_is_refused(presented: str | None) -> None:
    """Nothing, a wrong key, odd text and text without end are refused, and never repeated."""
    ring = _ring(ApiKey("a", new_key()[1], frozenset({"run"})))
    with pytest.raises(KeyRefused) as refusal:
        ring.visitor(presented)
    assert not presented or presented not in str(refusal.value)


def test_a_text_without_end_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long for a key is refused before its digest is worked out."""
    ring = _ring(ApiKey("a", new_key()[1], frozenset({"run"})))
    monkeypatch.setattr(keys, "digest_of", None)
    with pytest.raises(KeyRefused):
        ring.visitor("x" * (LONGEST + 1))
    with pytest.raises(TypeError):
        ring.visitor("x" * LONGEST)


def test_a_digest_is_no_key() -> None:
    """Who reads the configuration cannot come in with what it holds."""
    _, digest = new_key()
    ring = _ring(ApiKey("a", digest, frozenset({"run"})))
    for presented in (digest, digest.removeprefix("sha256:")):
        with pytest.raises(KeyRefused):
            ring.visitor(presented)


def test_a_key_expires_at_its_instant() -> None:
    """It opens until then, and is refused from then on, with its name and not itself."""
    time = Time()
    secret, digest = new_key()
    expires = NOON + timedelta(seconds=10)
    ring = _ring(ApiKey("a", digest, frozenset({"run"}), expires=expires), time=time)
    time.seconds += 9
    assert ring.visitor(secret).name == "a"
    time.seconds += 1
    with pytest.raises(KeyRefused, match="'a' expired on 2026-12-01T12:00:10") as refusal:
        ring.visitor(secret)
    assert secret not in str(refusal.value)


def test_a_key_is_held_to_its_pace_over_a_sliding_minute() -> None:
    """The third use in a minute is refused with the wait; what is refused is not counted."""
    time = Time()
    secret, digest = new_key()
    free, of_free = new_key()
    ring = _ring(
        ApiKey("a", digest, frozenset({"run"}), per_minute=2),
        ApiKey("b", of_free, frozenset({"run"})),
        time=time,
    )
    ring.visitor(secret)
    time.seconds += 20
    ring.visitor(secret)
    for _ in range(5):
        with pytest.raises(RateLimited) as refusal:
            ring.visitor(secret)
        assert refusal.value.retry_after == pytest.approx(40)
    assert ring.visitor(free).name == "b"  # each key has its own
    time.seconds += 40
    ring.visitor(secret)
    with pytest.raises(RateLimited) as refusal:
        ring.visitor(secret)
    assert refusal.value.retry_after == pytest.approx(20)


def test_every_key_is_compared_whatever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first key takes as many comparisons as the last, and as one that is unknown."""
    made = [new_key() for _ in range(5)]
    ring = _ring(*(ApiKey(str(i), d, frozenset({"run"})) for i, (_, d) in enumerate(made)))
    counted = 0

    whole = hmac.compare_digest

    def compare(a: str, b: str) -> bool:
        nonlocal counted
        counted += 1
        return whole(a, b)

    monkeypatch.setattr(keys.hmac, "compare_digest", compare)
    for presented in (made[0][0], made[-1][0], "lk_wrong"):
        counted = 0
        try:
            ring.visitor(presented)
        except KeyRefused:
            assert presented == "lk_wrong"
        assert counted == len(made)


def test_nothing_of_a_key_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a key nor its digest is in what is logged or shown of the objects that know it."""
    caplog.set_level(logging.DEBUG)
    secret, digest = new_key()
    key = ApiKey("a", digest, frozenset({"run"}))
    ring = _ring(key)
    ring.visitor(secret)
    shown = f"{key!r} {ring!r} {ring.visitor(secret)!r} {caplog.text}"
    assert secret not in shown
    assert digest.removeprefix("sha256:") not in shown


def test_the_ring_of_a_configuration_knows_its_keys() -> None:
    """What `security.api_keys` declares is what opens."""
    time = Time()
    secret, digest = new_key()
    spec = ApiKeySpec(
        id="app",
        hash=digest,
        scopes=("run", "approve"),
        agents=("devis",),
        rate_limit=RateLimit(per_minute=1),
        expires=NOON + timedelta(days=1),
    )
    config = LoomConfig(version=1, security=Security(api_keys=(spec,)))
    ring = key_ring(config, seconds=time.monotonic)
    visitor = ring.visitor(secret)
    assert visitor.scopes == {"run", "approve"}
    assert visitor.agents == {"devis"}
    with pytest.raises(RateLimited):
        ring.visitor(secret)
    assert key_ring(LoomConfig(version=1)).is_open
