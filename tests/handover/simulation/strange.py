"""Records that no reader can make anything of: cut short, of a later version, with a field that is missing or of another type."""

import json
import random

from autoscaler.handover.codec import decode
from tests.handover.simulation.broker import Pair

_WRONG: tuple[object, ...] = (None, True, 1, 1.5, -1, "x", [], [1], [["x"]], {}, [{}], 1e400)


def strange(pair: Pair, control_id: str | None, rng: random.Random) -> Pair:
    """Return a spoilt copy of a record that a reader ignores, under another group's key: it must not replace the good one."""
    kind, _, *rest = json.loads(pair[0])
    foreign = json.dumps([kind, "other", *rest]).encode()
    for _ in range(8):
        key, value = _spoilt((foreign, pair[1]), rng)
        said = decode(key, value, control_id=control_id)
        if said.record is None and not said.tombstone:
            return key, value
    return b'["left","other","w","u"]', b'{"v":1,"control":"x"}'


def _spoilt(pair: Pair, rng: random.Random) -> Pair:
    key, value = pair
    way = rng.randrange(6)
    if way == 0:
        return rng.choice((b"", b"\xff", b'"left"', b"[]", b'["nothing"]', key[:-1], b"[" * 10_000)), value
    if way == 1:
        return key, rng.choice((b"", b"[]", b"null", b"[" * 100_000, b'{"v":2}', b'{"v":NaN}'))
    body = json.loads(value or b"{}")
    _spoil(body, rng)
    return key, json.dumps(body).encode()


def _spoil(body: object, rng: random.Random) -> None:
    """Replace one thing somewhere in it."""
    inner = list(body.items()) if isinstance(body, dict) else list(enumerate(body)) if isinstance(body, list) else []
    if not inner:
        return
    where, what = rng.choice(inner)
    if isinstance(what, dict | list) and what and rng.random() < 0.7:
        _spoil(what, rng)
    elif isinstance(body, dict | list):
        body[where] = rng.choice(_WRONG)
