import { Deadline } from './deadline.ts';
import type {
  EgressAnswer,
  EgressFacts,
  EgressFailure,
  EgressRefused,
  EgressRequest,
  EgressStream,
} from './egress-request.ts';
import { faultFrom } from './fault.ts';
import { type Arrival, type EgressContext, travel } from './hops.ts';
import { requestHeaders } from './request-headers.ts';
import { type BodyParams, readBeginning, readWhole, streamOut } from './response-body.ts';

type Stopwatch = () => number;
type Arrived = Extract<Arrival, { kind: 'arrived' }>;

/** The answer with its body, read up to the bound. */
export function fetchWhole(context: EgressContext, request: EgressRequest): Promise<EgressAnswer> {
  return perform<EgressAnswer>(context, request, async ({ arrived, deadline, elapsed }) => {
    try {
      const params = bodyParams(request, arrived, deadline);
      const { bodyWaitMs } = request;
      const whole = bodyWaitMs === undefined ? await readWhole(params) : await readBeginning(params, bodyWaitMs);
      return { kind: 'answered', ...factsOf(arrived, elapsed()), ...whole };
    } finally {
      arrived.reply.close();
      deadline.release();
    }
  });
}

/** The answer as soon as its headers are there; the body comes as a stream that keeps every bound. */
export function openStream(context: EgressContext, request: EgressRequest): Promise<EgressStream> {
  return perform<EgressStream>(context, request, async ({ arrived, deadline, elapsed }) => {
    const body = streamOut(bodyParams(request, arrived, deadline), () => {
      arrived.reply.close();
      deadline.release();
    });
    return { kind: 'opened', ...factsOf(arrived, elapsed()), body };
  });
}

type Performance = { readonly arrived: Arrived; readonly deadline: Deadline; readonly elapsed: Stopwatch };

/** Whoever gets the arrival also gets the duty to release the deadline. */
async function perform<T>(
  context: EgressContext,
  request: EgressRequest,
  finish: (performance: Performance) => Promise<T>,
): Promise<T | EgressRefused | EgressFailure> {
  const headers = requestHeaders(request.headers ?? {}, context.userAgent);
  const elapsed = stopwatch();
  const deadline = new Deadline(request.timeoutMs, request.signal);
  try {
    const arrival = await travel(context, {
      url: request.url,
      request: { method: request.method ?? 'GET', headers, body: request.body ?? null },
      redirects: request.redirects ?? 0,
      proxy: request.proxy ?? null,
      signal: deadline.signal,
    });
    if (arrival.kind === 'arrived') return await finish({ arrived: arrival, deadline, elapsed });
    deadline.release();
    return { kind: 'refused', ...arrival.refusal, url: arrival.url, durationMs: elapsed() };
  } catch (error) {
    deadline.release();
    const { code, message } = faultFrom(error, 'PROTOCOL');
    return { kind: 'failed', code, message, durationMs: elapsed() };
  }
}

function stopwatch(): Stopwatch {
  const startedAt = performance.now();
  return () => Math.round(performance.now() - startedAt);
}

function bodyParams(request: EgressRequest, { reply, method }: Arrived, deadline: Deadline): BodyParams {
  const { maxBodyBytes, overflow, timeoutMs } = request;
  const announcesBody = method !== 'HEAD';
  return { reply, deadline, maxBodyBytes, overflow, announcesBody, idleTimeoutMs: request.idleTimeoutMs ?? timeoutMs };
}

function factsOf({ url, address, hops, reply }: Arrived, durationMs: number): EgressFacts {
  return { url, address, hops, durationMs, status: reply.status, headers: reply.headers };
}
