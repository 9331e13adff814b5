import type { HostLimits } from '../../core/ingest/host-gate.ts';
import { namedStatement, type Queryable, run, runNamed, statement } from '../driver/statement.ts';

/** Successes after which a host that had asked for a pause gets one more request at the same time. */
const SUCCESSES = 10;
/** The pause after a 429 or 503 without `Retry-After`. It doubles with each one that comes after a pause. */
const PAUSE_MS = { first: 1_000, max: 60_000 };

export type PlaceRequest = HostLimits & {
  readonly gateId: number;
  readonly host: string;
  /** How many places the process wants in all. Fewer than before gives places back. */
  readonly wanted: number;
  /** How many places have a request in flight. The process keeps these. */
  readonly inUse: number;
  /** How many starts to reserve, if the host has a rate and the process has a place. */
  readonly starts: number;
  readonly requests: number;
  readonly bytes: number;
  readonly errors: number;
  readonly successes: number;
  /** Whether the host asked for a pause since the last call. */
  readonly isThrottled: boolean;
  /** How long a pause it asked for. Null: it did not say. */
  readonly pauseMs: number | null;
};

export type PlaceAnswer = {
  /** How many places the process has now. */
  readonly held: number;
  /** How many may be in flight at this host. */
  readonly allowed: number;
  /** Whether other processes wait for a place. */
  readonly othersWait: boolean;
  readonly isPaused: boolean;
  /** How long the host is not called. 0: it may be called. */
  readonly backoffMs: number;
  /** When the first of the reserved starts may happen. */
  readonly startInMs: number;
};

// Each SET reads the newest version of the row under its lock, so no two processes get the same place. A process behind others in `waiting`
// leaves one place for each of them. It gets a new turn at the end when it received one.
const ASK = namedStatement<PlaceRequest, PlaceAnswer>(
  'ask_host_places',
  `UPDATE millrace.download_hosts h SET
     (places, waiting, next_start_at, backoff_until, strikes, concurrency, successes) = (
       SELECT a.others || array_fill($gateId::int4, ARRAY[g.granted]),
         CASE WHEN g.granted >= $wanted::int4 OR b.is_closed THEN array_remove(h.waiting, $gateId::int4)
           WHEN g.granted > a.own THEN array_append(array_remove(h.waiting, $gateId::int4), $gateId::int4)
           WHEN $gateId::int4 = ANY (h.waiting) THEN h.waiting
           ELSE array_append(h.waiting, $gateId::int4) END,
         CASE WHEN $rate::float8 IS NULL THEN NULL
           WHEN g.granted = 0 OR $starts::int4 = 0 THEN h.next_start_at
           ELSE greatest(h.next_start_at, a.now) + $starts::int4 / $rate::float8 * interval '1 second' END,
         b.until, b.strikes, b.concurrency, b.successes
       FROM (SELECT millrace.clock() AS now, array_remove(h.places, $gateId::int4) AS others,
           cardinality(array_positions(h.places, $gateId::int4)) AS own,
           coalesce(array_position(h.waiting, $gateId::int4) - 1, cardinality(h.waiting)) AS ahead,
           $isThrottled::bool AND coalesce(h.backoff_until <= millrace.clock(), true) AS is_strike) a
       CROSS JOIN LATERAL (SELECT
           CASE WHEN $isThrottled::bool THEN greatest(h.backoff_until, a.now + interval '1 ms' * coalesce($pauseMs::float8,
             least(${PAUSE_MS.max}, ${PAUSE_MS.first} * 2 ^ least(h.strikes, 20)))) ELSE h.backoff_until END AS until,
           CASE WHEN a.is_strike THEN h.strikes + 1 WHEN h.successes + $successes::int4 >= ${SUCCESSES} THEN 0 ELSE h.strikes END AS strikes,
           CASE WHEN a.is_strike THEN greatest(1, least(coalesce(h.concurrency, $concurrency::int4), $concurrency::int4) / 2)
             WHEN h.concurrency IS NULL OR h.successes + $successes::int4 < ${SUCCESSES} THEN h.concurrency
             ELSE nullif(least(h.concurrency + 1, $concurrency::int4), $concurrency::int4) END AS concurrency,
           CASE WHEN a.is_strike OR h.concurrency IS NULL OR h.successes + $successes::int4 >= ${SUCCESSES} THEN 0
             ELSE h.successes + $successes::int4 END AS successes) c
       CROSS JOIN LATERAL (SELECT c.*, h.is_paused OR coalesce(c.until > a.now, false) AS is_closed) b
       CROSS JOIN LATERAL (SELECT least($wanted::int4, greatest(least($inUse::int4, a.own), CASE WHEN b.is_closed THEN 0
           ELSE least($concurrency::int4, coalesce(b.concurrency, $concurrency::int4)) - cardinality(a.others) - a.ahead END)) AS granted) g
     ),
     requests = h.requests + $requests::int8, bytes = h.bytes + $bytes::int8, errors = h.errors + $errors::int8, used_at = millrace.clock()
   WHERE h.host = $host
   RETURNING cardinality(array_positions(h.places, $gateId::int4)) AS held,
     least($concurrency::int4, coalesce(h.concurrency, $concurrency::int4)) AS allowed,
     cardinality(array_remove(h.waiting, $gateId::int4)) > 0 AS "othersWait", h.is_paused AS "isPaused",
     greatest(0, coalesce(extract(epoch FROM h.backoff_until - millrace.clock()) * 1000, 0))::float8 AS "backoffMs",
     greatest(0, coalesce(extract(epoch FROM h.next_start_at - $starts::int4 / $rate::float8 * interval '1 second' - millrace.clock())
       * 1000, 0))::float8 AS "startInMs"`,
);

const ADD = statement(
  'add_download_host',
  'INSERT INTO millrace.download_hosts (host, used_at) VALUES ($1::text, millrace.clock()) ON CONFLICT DO NOTHING',
);

/** Takes or gives back places at a host, reserves starts, and counts requests. */
export async function askForPlaces(session: Queryable, request: PlaceRequest): Promise<PlaceAnswer> {
  for (;;) {
    const [answer] = await runNamed(session, ASK, request);
    if (answer !== undefined) return answer;
    await run(session, ADD, [request.host]);
  }
}
