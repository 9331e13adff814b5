import fc from 'fast-check';
import { expect, it } from 'vitest';
import { useQueue } from './queue-fixture.ts';

const queue = useQueue();

/** Mostly what is meant, now and then anything else: about half of what is made of such members is accepted. */
const mostly = <A, B>(good: fc.Arbitrary<A>, bad: fc.Arbitrary<B>) =>
  fc.oneof({ weight: 14, arbitrary: good }, { weight: 1, arbitrary: bad });
const duration = mostly(
  fc.oneof(fc.constantFrom('PT5M', 'PT0.25S', '30s'), fc.integer({ min: 1, max: 99 })),
  fc.oneof(fc.constantFrom('P1D', 'P1M', '', '-PT1S', 0), fc.integer({ min: -2, max: 0 }), fc.boolean()),
);
const words = (...list: string[]) => mostly(fc.constantFrom(...list), fc.constantFrom('OTHER', list[0]?.toLowerCase() ?? '', null, 1));
const text = fc.oneof(fc.string({ maxLength: 300 }), fc.constant(null), fc.integer());

const members = fc.record(
  {
    type: mostly(fc.constantFrom('mail', 'report'), fc.oneof(fc.string({ maxLength: 110 }), fc.constant(7))),
    payload: mostly(fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 })), fc.jsonValue({ maxDepth: 1 })),
    priority: words('CRITICAL', 'HIGH', 'NORMAL', 'LOW', 'BULK'),
    timeout: duration,
    max_attempts: mostly(fc.integer({ min: 1, max: 100 }), fc.oneof(fc.integer({ min: -1, max: 102 }), fc.double(), fc.constant('3'))),
    backoff: fc.record(
      {
        strategy: words('CONSTANT', 'LINEAR', 'EXPONENTIAL'),
        initial_delay: duration,
        max_delay: mostly(fc.constant('PT1H'), duration),
        multiplier: mostly(fc.integer({ min: 1, max: 10 }), fc.constantFrom(0, 12, '2')),
        jitter: mostly(fc.boolean(), fc.constant('yes')),
      },
      { requiredKeys: [] },
    ),
    correlation_id: mostly(fc.string({ minLength: 1, maxLength: 30 }), text),
    tags: mostly(
      fc.dictionary(fc.string({ minLength: 1, maxLength: 20 }), fc.string({ maxLength: 20 })),
      fc.oneof(fc.dictionary(fc.string({ maxLength: 140 }), fc.oneof(fc.string(), fc.integer())), fc.constant([])),
    ),
    callback_url: mostly(fc.constant('https://example.com/x'), fc.constantFrom('nowhere', '', null)),
    queue: mostly(fc.constantFrom('q:exports', 'q:critical'), fc.constantFrom('q:mail', 'Q', '', null)),
  },
  { requiredKeys: ['type', 'payload'] },
);
const scheduledAt = mostly(
  fc.constantFrom('2020-01-15T10:30:00Z', '2020-01-15T10:30:00+02:00'),
  fc.constantFrom('2020-01-15T10:30+02:00', '2020-01-15', 7, null),
);
const when = mostly(
  fc.oneof(fc.constant({}), fc.record({ delay: duration }), fc.record({ scheduled_at: scheduledAt })),
  fc.record({ delay: duration, scheduled_at: scheduledAt }),
);
const unknown = mostly(fc.constant({}), fc.constant({ surprise: 1 }));

const submission = fc.tuple(members, when, unknown).map((parts): object => Object.assign({}, ...parts));

it('whatever the service accepts the document allows, and whatever it refuses it says why [GA-6.15]', async () => {
  const caller = await queue.caller();
  const answers = { 202: 0, 400: 0 };
  await fc.assert(
    fc.asyncProperty(submission, async (given) => {
      // Answers, and requests that were accepted, are held to the document by the caller itself.
      const { status, body } = await caller.post('/jobs', given);
      expect([202, 400]).toContain(status);
      answers[status as keyof typeof answers]++;
      if (status === 400) expect(body.details.length).toBeGreaterThan(0);
    }),
    { numRuns: 300 },
  );
  // Nothing is shown by requests that are all refused, or all accepted.
  expect(Math.min(...Object.values(answers))).toBeGreaterThan(20);
});
