"""Usage: sandbox <runs>. The time of a typical validator in each language, one after another and many at once."""

import asyncio
import json
import sys
import time

from bench.probes.rates import AT_ONCE, rate
from toolcrib.sandbox import sandbox

ARGUMENTS = json.dumps({"name": "Write it down", "list_id": "901", "assignees": [1, 2], "text": "x" * 930}).encode()

CODE = {
    "javascript": """
(function () {
  const errors = [];
  const { name, list_id, assignees, due_date } = args.args;
  if (!name || typeof name !== 'string') errors.push('name is required');
  if (!/^[0-9]+$/.test(list_id || '')) errors.push('list_id must be a number in text');
  if (assignees !== undefined && !Array.isArray(assignees)) errors.push('assignees must be an array');
  for (const one of assignees || []) if (!Number.isInteger(one)) errors.push('assignees holds ' + typeof one);
  if (due_date && Number.isNaN(Date.parse(due_date))) errors.push('due_date must be a date');
  return { valid: errors.length === 0, errors };
})();
""",
    "python": """
def validate(args):
    errors = []
    given = args['args']
    if not given.get('name'):
        errors.append('name is required')
    if not str(given.get('list_id', '')).isdigit():
        errors.append('list_id must be a number in text')
    for one in given.get('assignees') or []:
        if not isinstance(one, int):
            errors.append('assignees holds something else')
    return {'valid': not errors, 'errors': errors}
""",
}


async def _measured(language: str, runs: int) -> dict[str, float]:
    box = sandbox(language)

    async def one() -> float:
        start = time.perf_counter()
        ran = await box.run(
            CODE[language], ARGUMENTS, name="check", role="validator", timeout_s=0.5, memory_bytes=8 << 20
        )
        assert json.loads(ran.value)["valid"]
        return (time.perf_counter() - start) * 1e3

    start = time.perf_counter()
    await one()
    first = (time.perf_counter() - start) * 1e3
    await asyncio.gather(*(one() for _ in range(AT_ONCE * 4)))
    times = sorted([await one() for _ in range(runs)])
    per_s = await rate(one, runs)
    await box.close()
    return {"first_ms": first, "p50_ms": times[runs // 2], "p99_ms": times[runs * 99 // 100], "per_s": per_s}


async def main() -> None:
    print(json.dumps({language: await _measured(language, int(sys.argv[1])) for language in CODE}))


asyncio.run(main())
