import fc from 'fast-check';
import { expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const duration = fc.oneof(
  fc.constantFrom('PT5M', 'P1D', 'PT0.25S', '30s', 'P1M', '', '-PT1S'),
  fc.integer({ min: -2, max: 99 }),
  fc.boolean(),
);
const text = fc.oneof(fc.string({ maxLength: 300 }), fc.constant(null), fc.integer());
const words = (...list: string[]) => fc.constantFrom(...list, 'OTHER', list[0]?.toLowerCase() ?? '', null, 1);

const submission = fc.record({
  type: fc.oneof(fc.constantFrom('mail', 'report'), fc.string({ maxLength: 110 }), fc.constant(undefined)),
  payload: fc.oneof(
    fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 })),
    fc.jsonValue({ maxDepth: 1 }),
  ),
  priority: maybe(words('CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK')),
  delay: maybe(duration),
  scheduled_at: maybe(fc.constantFrom('2020-01-15T10:30:00Z', '2020-01-15T10:30+02:00', '2020-01-15', 7, null)),
  timeout: maybe(duration),
  max_attempts: maybe(fc.oneof(fc.integer({ min: -1, max: 102 }), fc.double(), fc.constant('3'))),
  backoff: maybe(
    fc.record({
      strategy: maybe(words('CONSTANT', 'LINEAR', 'EXPONENTIAL')),
      initial_delay: maybe(duration),
      multiplier: maybe(fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constant('2'))),
      jitter: maybe(fc.constantFrom(true, false, 'yes')),
    }),
  ),
  correlation_id: maybe(text),
  tags: maybe(
    fc.oneof(fc.dictionary(fc.string({ maxLength: 140 }), fc.oneof(fc.string(), fc.integer())), fc.constant([])),
  ),
  callback_url: maybe(fc.constantFrom('https://example.com/x', 'nowhere', '', null)),
  queue: maybe(fc.constantFrom('q:mail', 'q:critical', 'Q', '', null)),
  surprise: maybe(fc.constant(1)),
});

it('whatever the service accepts the document allows, and whatever it refuses it says why [GA-6.15]', async () => {
  const caller = await queue.caller();
  await fc.assert(
    fc.asyncProperty(submission, async (given) => {
      // Answers, and requests that were accepted, are held to the document by the caller itself.
      const { status, body } = await caller.post('/jobs', given);
      expect([202, 400]).toContain(status);
      if (status === 400) expect(body.details.length).toBeGreaterThan(0);
    }),
    { numRuns: 300 },
  );
});
