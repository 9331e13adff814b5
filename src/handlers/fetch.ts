import { JobCancelledError, PermanentError, PostponeError, TemporaryError } from '../core/handler-errors.ts';
import { FETCH_TYPE, type FetchResult, type FetchTask } from '../core/ingest/fetch-task.ts';
import type { HostOutcome } from '../core/ingest/host-gate.ts';
import type { IngestLogLevel } from '../core/ingest/log-line.ts';
import { maskedHeaders, maskedUrl } from '../core/ingest/masking.ts';
import type { ProxyRoute } from '../core/ingest/proxy-pools.ts';
import { requestHeadersOf } from './fetch-headers.ts';
import { storableTags } from './fetch-metadata.ts';
import { PartialObject } from './fetch-partial.ts';
import { Place } from './fetch-place.ts';
import type { FetchContext, FetchPorts } from './fetch-ports.ts';
import { type PoolTurn, poolTurns } from './fetch-routes.ts';
import { storedVersionOf } from './fetch-stored.ts';
import { readFetchTask } from './fetch-task.ts';
import { HeldUp, type TryFacts, type TryParams, tryOnce } from './fetch-try.ts';
import { FetchError, type FetchFailure } from './fetch-verdict.ts';

const ATTEMPTS = 5;
/** Time to enter the host and to write the outcome, in addition to the download. */
const SLACK_MS = 60_000;
const AFTER_LOSS_MS = 1_000;

/** The registration of downloads. */
export function fetchRegistration<Context extends FetchContext>(ports: FetchPorts) {
  return {
    type: FETCH_TYPE,
    timeout: `${ports.limits.timeoutMs + SLACK_MS}ms`,
    lifetime: 'P7D',
    maxAttempts: ATTEMPTS,
    backoff: { maxDelay: 'PT10M' },
    handler: (context: Context, payload: unknown) => fetchResource(ports, context, readFetchTask(payload)),
  };
}

/** Downloads one resource into the object store. */
async function fetchResource(ports: FetchPorts, context: FetchContext, task: FetchTask): Promise<FetchResult> {
  const { resourceId } = task;
  const log: Log = (level, event, message, details) =>
    ports.log(task.jobId, { level, event, resourceId, message, ...(details && { details }) });
  const partial = new PartialObject({ store: ports.store, task, context });
  const seen: Seen = { proxy: null, status: null };
  const number = attemptNumber(ports, context);
  try {
    const result = await attempt({ ports, context, task, partial, log, seen, number });
    const { bytes, httpStatus, sha256, proxy } = result;
    log('info', 'resource.completed', `stored ${bytes} bytes`, {
      bytes,
      http_status: httpStatus,
      sha256,
      proxy,
      object_key: result.objectKey,
    });
    return result;
  } catch (error) {
    throw await concluded(error, { partial, log, context, seen, number });
  } finally {
    await ports.flushLog?.(task.jobId).catch(() => undefined);
  }
}

/** What an attempt has seen last: the pool that it tried, and the status of a response. */
type Seen = { proxy: string | null; status: number | null };

/** Returns the number of this attempt for log lines. Attempts that only waited for the host do not count. It is read once; if that fails, the number may be too high. */
function attemptNumber(ports: FetchPorts, { attempt, orgId, jobId }: FetchContext): () => Promise<number> {
  let found: Promise<number> | undefined;
  return () => {
    found ??= attempt === 1 ? Promise.resolve(1) : (ports.attemptsOf?.({ orgId, jobId }).catch(() => attempt) ?? Promise.resolve(attempt));
    return found;
  };
}

type Log = (level: IngestLogLevel, event: string, message: string, details?: Record<string, unknown>) => void;
type AttemptParams = {
  readonly ports: FetchPorts;
  readonly context: FetchContext;
  readonly task: FetchTask;
  readonly partial: PartialObject;
  readonly log: Log;
  readonly seen: Seen;
  number(): Promise<number>;
};

async function attempt({ ports, context, task, partial, log, seen, number }: AttemptParams): Promise<FetchResult> {
  const endsMs = performance.now() + ports.limits.timeoutMs;
  const { headers, dropped } = requestHeadersOf(task);
  await partial.reopen();
  const isRepeated = context.attempt > 1 && partial.received === 0;
  const stored = isRepeated ? await storedVersionOf(ports.store, task) : null;
  const turns = poolTurns(ports.pools, task.proxies);
  const place = new Place({
    hosts: ports.hosts,
    orgId: context.orgId,
    signal: context.signal,
    onRedirect: ({ url, redirect }) => {
      seen.status = redirect;
      log('info', 'resource.redirected', `redirected to ${maskedUrl(url)}`, { http_status: redirect, url: maskedUrl(url) });
    },
    onStart: async () => logStart({ task, partial, log, dropped, number: await number() }),
  });
  return tryInTurn({ ports, context, task, headers, partial, place, stored, endsMs }, turns, { log, seen });
}

type Start = Pick<AttemptParams, 'task' | 'partial' | 'log'> & { readonly dropped: readonly string[]; readonly number: number };

function logStart({ task, partial, log, dropped, number }: Start): void {
  const url = maskedUrl(task.url);
  const isFirst = number === 1;
  const details = { url, attempt: number, headers: maskedHeaders(task.headers), resumed_at: partial.received };
  log('info', isFirst ? 'resource.started' : 'resource.retried', `${isFirst ? 'requests' : 'requests again'} ${url}`, details);
  if (dropped.length > 0)
    log('warn', 'resource.headers_dropped', `these headers are never sent: ${dropped.join(', ')}`, { headers: dropped });
  const tags = storableTags(task.tags).dropped;
  if (tags.length > 0) log('warn', 'resource.tags_dropped', `the object is stored without ${tags.length} of its tags`, { tags });
}

/** Tries one address after the other, until one leads to the content or to a failure that no other can change. */
async function tryInTurn(params: TryParams, turns: PoolTurn, { log, seen }: Pick<AttemptParams, 'log' | 'seen'>): Promise<FetchResult> {
  const { place } = params;
  let failure: FetchFailure | null = null;
  let last: HostOutcome = { bytes: 0, status: null, failed: false };
  try {
    for (;;) {
      const turn = turns.next(failure);
      if (turn.kind === 'spent') throw new FetchError(failure ?? turn.failure);
      if (turn.takesOver !== null) {
        const { from, why } = turn.takesOver;
        const message = `the proxy pool ${turn.route?.pool} took over from ${from}: ${why}`;
        log('warn', 'resource.proxy_changed', message, { from, to: turn.route?.pool, reason: why });
      }
      if (failure !== null) place.note(last);
      const facts: TryFacts = { status: null, bytes: 0 };
      try {
        const result = await tryOnce(params, turn.route, facts);
        last = { ...facts, failed: false };
        turn.route?.report(true);
        return result;
      } catch (error) {
        // A host that cannot be entered again does not hide why the first pool failed.
        if (error instanceof HeldUp && failure !== null) throw new FetchError(failure);
        seen.proxy = turn.route?.pool ?? null;
        seen.status = facts.status ?? seen.status;
        last = { ...facts, failed: false };
        if (!(error instanceof FetchError)) throw error;
        failure = error.failure;
        last = { ...facts, failed: failure.code !== 'STORAGE_UNAVAILABLE' };
        reportProxy(turn.route, failure, facts);
        if (!failure.triesNextPool) throw error;
      }
    }
  } catch (error) {
    if (error instanceof HeldUp) throw postponed(place);
    throw error;
  } finally {
    place.leave(last);
  }
}

function reportProxy(route: ProxyRoute | null, { blamesProxy }: FetchFailure, { status }: TryFacts): void {
  if (blamesProxy) route?.report(false);
  else if (status !== null) route?.report(true);
}

const postponed = ({ retryAfterMs }: Place): PostponeError => new PostponeError({ retryAfter: { ms: retryAfterMs ?? AFTER_LOSS_MS } });

type Conclusion = Pick<AttemptParams, 'partial' | 'log' | 'context' | 'seen' | 'number'>;

/** Keeps or drops the stored bytes, writes the last line, and returns what the handler throws. */
async function concluded(error: unknown, { partial, log, context, seen, number }: Conclusion): Promise<unknown> {
  if (!(error instanceof FetchError)) {
    const isCancelled = error instanceof JobCancelledError || context.signal.reason instanceof JobCancelledError;
    await (isCancelled ? partial.drop() : partial.keep());
    return error;
  }
  const { code, message, isPermanent, retryAfterMs } = error.failure;
  await (isPermanent ? partial.drop() : partial.keep());
  const details = { code, attempt: await number(), http_status: seen.status, proxy: seen.proxy };
  if (isPermanent) {
    log('error', 'resource.failed', `${code}: ${message}`, details);
    return withEvidence(new PermanentError(message, { code }), seen);
  }
  log('warn', 'resource.attempt_failed', `${code}: ${message}`, { ...details, retry_after_ms: retryAfterMs ?? null });
  const retryAfter = retryAfterMs === undefined ? {} : { retryAfter: { ms: retryAfterMs } };
  return withEvidence(new TemporaryError(message, { code, ...retryAfter }), seen);
}

/** The failure of the job keeps the context of the error, so that operators see it of a resource that failed. */
function withEvidence(error: Error & { context?: Record<string, string> }, { proxy, status }: Seen): Error {
  error.context = { ...(status === null ? {} : { http_status: String(status) }), ...(proxy === null ? {} : { proxy }) };
  return error;
}
