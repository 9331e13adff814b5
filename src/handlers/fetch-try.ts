import { finished } from 'node:stream/promises';
import { dictionary } from '../core/dictionary.ts';
import type { FetchResult, FetchTask } from '../core/ingest/fetch-task.ts';
import { maskedUrl } from '../core/ingest/masking.ts';
import type { ProxyRoute } from '../core/ingest/proxy-pools.ts';
import { contentTypeOf, metadataOf } from './fetch-metadata.ts';
import { type PartialObject, validatorOf } from './fetch-partial.ts';
import type { Place } from './fetch-place.ts';
import type { FetchContext, FetchPorts, OpenAnswer, OpenedResponse } from './fetch-ports.ts';
import type { StoredVersion } from './fetch-stored.ts';
import { FetchError, failureOfFault, failureOfRefusal, failureOfStatus, permanent, temporary } from './fetch-verdict.ts';

const PARTIAL = 206;
const NOT_MODIFIED = 304;
const NO_SUCH_RANGE = 416;
/** Such a body mostly arrives together with the headers. */
const WHOLE_BYTES = 65_536;

/** The host could not be entered, or its place went to another process. The download continues later. */
export class HeldUp extends Error {}

export type TryParams = {
  readonly ports: FetchPorts;
  readonly context: FetchContext;
  readonly task: FetchTask;
  readonly headers: ReadonlyMap<string, string>;
  readonly partial: PartialObject;
  readonly place: Place;
  /** An object that an earlier attempt completed. */
  readonly stored: StoredVersion | null;
  readonly endsMs: number;
};

/** What a try did so far. */
export type TryFacts = { status: number | null; bytes: number; retryAfterMs?: number | undefined };

/** Requests the resource once, or twice if the server cannot continue where an earlier try ended. */
export async function tryOnce(params: TryParams, route: ProxyRoute | null, facts: TryFacts): Promise<FetchResult> {
  const { partial, stored, task } = params;
  for (;;) {
    const resumesWith = params.headers.has('range') ? null : partial.resumesWith;
    const answer = await open(params, route, resumesWith);
    facts.status = answer.status;
    if (answer.status === NOT_MODIFIED && stored !== null) {
      await discard(answer);
      return { ...stored, httpStatus: NOT_MODIFIED, objectKey: task.storage.key, proxy: route?.pool ?? null, url: maskedUrl(answer.url) };
    }
    if (resumesWith !== null && !continues(answer, partial.received, resumesWith)) {
      await discard(answer);
      await partial.drop();
      params.place.note({ bytes: 0, status: answer.status, failed: true });
      continue;
    }
    if (answer.status < 200 || answer.status >= 300) {
      await discard(answer);
      const failure = failureOfStatus(answer, Date.now());
      facts.retryAfterMs = failure.retryAfterMs;
      throw new FetchError(failure);
    }
    return await store(params, { answer, route, facts, isResumed: resumesWith !== null && answer.status === PARTIAL });
  }
}

async function open(params: TryParams, route: ProxyRoute | null, resumesWith: string | null): Promise<OpenedResponse> {
  const { ports, task, place, partial, stored } = params;
  const { idleTimeoutMs, maxBytes, redirects } = ports.limits;
  const timeoutMs = Math.max(1, params.endsMs - performance.now());
  const headers = dictionary(params.headers);
  if (resumesWith !== null) {
    headers.range = `bytes=${partial.received}-`;
    headers['if-range'] = resumesWith;
  } else if (stored?.etag) headers['if-none-match'] = stored.etag;
  const answer: OpenAnswer = await ports.egress.openOrRead({
    url: task.url,
    method: 'GET',
    headers,
    timeoutMs,
    idleTimeoutMs,
    maxBodyBytes: maxBytes,
    overflow: 'fail',
    redirects,
    proxy: route?.proxy ?? null,
    mayForward: true,
    reuses: true,
    wholeUpToBytes: WHOLE_BYTES,
    signal: params.context.signal,
    beforeHop: (hop) => place.enter(hop),
  });
  if (answer.kind === 'opened') return answer;
  if (answer.kind === 'refused') throw new FetchError(failureOfRefusal(answer));
  stopIfHeldUp(params);
  throw new FetchError(failureOfFault(answer, 'response'));
}

function stopIfHeldUp({ context, place }: TryParams): void {
  context.signal.throwIfAborted();
  if (place.isLost || place.retryAfterMs !== null) throw new HeldUp();
}

/** Whether the response goes on where the stored bytes end, in the same version of the content. A whole new response is fine, too. */
function continues({ status, headers }: OpenedResponse, received: number, validator: string): boolean {
  if (status === NO_SUCH_RANGE) return false;
  if (status !== PARTIAL) return true;
  const start = /^bytes (\d+)-\d+\/(?:\d+|\*)$/.exec(headers['content-range'] ?? '')?.[1];
  const found = validatorOf(headers);
  return Number(start) === received && (found === null || found === validator || !validator.startsWith('"'));
}

type Arrived = {
  readonly answer: OpenedResponse;
  readonly route: ProxyRoute | null;
  readonly facts: TryFacts;
  readonly isResumed: boolean;
};

async function store(params: TryParams, { answer, route, facts, isResumed }: Arrived): Promise<FetchResult> {
  const { partial, task, context } = params;
  const { headers, status, url } = answer;
  try {
    if (status === PARTIAL && !isResumed && !params.headers.has('range')) {
      throw new FetchError(temporary('TRUNCATED', 'the server sent a part that was not asked for', { triesNextPool: true }));
    }
    if (!isResumed) await partial.restart(validatorOf(headers));
    await copy(params, answer, facts);
  } finally {
    if (!(answer.body instanceof Uint8Array)) answer.body.destroy();
  }
  if (isResumed) refuseShorter(answer, partial.received);
  const sha256 = await partial.digest();
  refuseChecksum(task, sha256);
  context.signal.throwIfAborted();
  const contentType = contentTypeOf(headers);
  await partial.complete({
    ...(contentType === null ? {} : { contentType }),
    metadata: metadataOf(task, { sha256, etag: headers.etag }),
  });
  const bytes = partial.received;
  return { httpStatus: status, bytes, sha256, contentType, objectKey: task.storage.key, proxy: route?.pool ?? null, url: maskedUrl(url) };
}

async function copy(params: TryParams, { body }: OpenedResponse, facts: TryFacts): Promise<void> {
  const { partial, ports } = params;
  const { maxBytes } = ports.limits;
  if (body instanceof Uint8Array) {
    facts.bytes += body.length;
    if (partial.received + body.length > maxBytes) throw tooLong(maxBytes);
    return partial.write(body);
  }
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      facts.bytes += chunk.length;
      if (partial.received + chunk.length > maxBytes) throw tooLong(maxBytes);
      await partial.write(chunk);
    }
  } catch (error) {
    if (!isBodyError(error)) throw error;
    stopIfHeldUp(params);
    throw new FetchError(failureOfFault(error, 'body'));
  }
}

const tooLong = (maxBytes: number): FetchError => new FetchError(permanent('TOO_LARGE', `the body is longer than ${maxBytes} bytes`));

const isBodyError = (error: unknown): error is Error & { code: string } => error instanceof Error && error.name === 'EgressBodyError';

/** The end of a continued download must be the end of the content. */
function refuseShorter({ headers }: OpenedResponse, received: number): void {
  const total = /\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1];
  if (total === undefined || Number(total) === received) return;
  throw new FetchError(temporary('TRUNCATED', `the server sent ${received} of ${total} bytes`, { triesNextPool: true }));
}

const HINT = /^sha256:([0-9a-f]{64})$/i;

function refuseChecksum({ tags }: FetchTask, sha256: string): void {
  const hint = tags.find(([name]) => name === 'checksum_hint')?.[1];
  const expected = HINT.exec(hint?.trim() ?? '')?.[1]?.toLowerCase();
  if (expected === undefined || expected === sha256) return;
  throw new FetchError(permanent('CHECKSUM_MISMATCH', `the content has the SHA-256 ${sha256}, and the tag checksum_hint says ${expected}`));
}

const SHORT_BODY_BYTES = 65_536;
const DISCARD_MS = 500;

/** Reads a short body to its end, so that the connection can be used again. */
async function discard({ headers, body }: OpenedResponse): Promise<void> {
  if (body instanceof Uint8Array) return;
  const length = Number(headers['content-length'] ?? Number.NaN);
  if (!(length <= SHORT_BODY_BYTES)) {
    body.destroy();
    return;
  }
  const timer = setTimeout(() => body.destroy(), DISCARD_MS);
  await finished(body.resume()).catch(() => undefined);
  clearTimeout(timer);
}
