import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseInPieces } from '../../src/http/shared/json-pieces.ts';
import { JsonScan } from '../../src/http/shared/json-scan.ts';

const reader = {
  read: (text: string) => JSON.parse(text),
  refuseLarge: () => new Error('large'),
  refuseMany: () => new Error('many'),
};
const limits = { bytes: 1_000_000, values: 1_000_000 };

/** Scans a few bytes at a time, so that every boundary is met. */
function scanOf(bytes: Buffer, step: number): JsonScan {
  const scan = new JsonScan(bytes, { withEntries: true });
  while (scan.advance(step)) {}
  return scan;
}

async function inPieces(text: string, step = 3): Promise<unknown> {
  const bytes = Buffer.from(text);
  return parseInPieces(bytes, { scan: scanOf(bytes, step), limits, reader }).catch(() => 'refused');
}

function whole(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return 'refused';
  }
}

const batch = fc.record({ jobs: fc.array(fc.jsonValue({ maxDepth: 4 }), { maxLength: 5 }), more: fc.jsonValue({ maxDepth: 3 }) });
const value = fc.oneof(batch, fc.array(batch), fc.jsonValue());

describe('a text that is parsed in pieces', () => {
  it('has the value that it has as a whole', async () => {
    const property = fc.asyncProperty(value, fc.integer({ min: 1, max: 20 }), fc.constantFrom(0, 2), async (given, step, indent) => {
      const text = JSON.stringify(given, null, indent);
      expect(await inPieces(text, step)).toEqual(whole(text));
    });
    await fc.assert(property, { numRuns: 500 });
  });

  it('is refused when it is refused as a whole', async () => {
    const damage = fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.constantFrom('', ',', '[', ']', '{', '}', '"', '1', '\\', ':', ' '));
    const property = fc.asyncProperty(value, damage, async (given, [at, cut, put]) => {
      const text = JSON.stringify(given);
      const from = at % (text.length + 1);
      const damaged = text.slice(0, from) + put + text.slice(from + cut);
      fc.pre(damaged.isWellFormed());
      expect(await inPieces(damaged)).toEqual(whole(damaged));
    });
    await fc.assert(property, { numRuns: 1_000 });
  });

  it.each([
    '{"jobs":[1,2],"jobs":[3]}',
    '{"jobs":[nonsense],"jobs":[3]}',
    '{"jobs":[ ]}',
    '{"jobs":[1,]}',
    '{"jobs":[,1]}',
    '{"jobs":[1 2]}',
    '{"jobs":[{"a":1]}}',
    '{"jobs":["\\\\","]",",\\""]}',
    '[[1],[2,[3]]]',
    '[1,2]',
    '',
  ])('agrees with the whole: %s', async (text) => {
    for (const step of [1, 2, 100]) expect(await inPieces(text, step)).toEqual(whole(text));
  });

  it('refuses a piece that is too large or has too many values', async () => {
    const parse = (text: string) => {
      const bytes = Buffer.from(text);
      return parseInPieces(bytes, { scan: scanOf(bytes, 8), limits: { bytes: 100, values: 10 }, reader });
    };
    const small = '{"a":1}';
    expect(await parse(`{"jobs":[${Array(30).fill(small).join(',')}]}`)).toMatchObject({ jobs: { length: 30 } });
    await expect(parse(`{"jobs":[${small},"${'x'.repeat(100)}"]}`)).rejects.toThrow('large');
    await expect(parse(`{"jobs":[${small},[${Array(11).fill(1)}]]}`)).rejects.toThrow('many');
    await expect(parse(`{"jobs":{"a":[${Array(11).fill(1)}]}}`)).rejects.toThrow('many');
  });
});
