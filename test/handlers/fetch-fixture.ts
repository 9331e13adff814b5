/** Runs the handler of downloads over real sockets, into a folder store. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll } from 'vitest';
import { PermanentError, PostponeError, TemporaryError } from '../../src/core/handler-errors.ts';
import type { FetchResult, FetchTask } from '../../src/core/ingest/fetch-task.ts';
import type { HostGate, HostOutcome } from '../../src/core/ingest/host-gate.ts';
import type { IngestLogLine } from '../../src/core/ingest/log-line.ts';
import type { Egress } from '../../src/egress/egress.ts';
import { HealthPools } from '../../src/egress/health-pools.ts';
import { fetchRegistration } from '../../src/handlers/fetch.ts';
import type { FetchContext, FetchPorts } from '../../src/handlers/fetch-ports.ts';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { localEgress } from '../egress/local-egress.ts';

const BUCKET = 'downloads';

/** Lets everybody in, and remembers who came and how it ended. */
export class OpenGate implements HostGate {
  readonly entered: string[] = [];
  readonly outcomes: HostOutcome[] = [];
  readonly places: AbortController[] = [];

  async enter(host: string) {
    this.entered.push(host);
    const place = new AbortController();
    this.places.push(place);
    const count = (outcome: HostOutcome) => void this.outcomes.push(outcome);
    const onLost = (listener: () => void) => {
      place.signal.onabort = listener;
    };
    const isLost = () => place.signal.aborted;
    return {
      kind: 'entered' as const,
      get isLost() {
        return isLost();
      },
      onLost,
      note: count,
      leave: count,
    };
  }
}

export type Ended =
  | { readonly kind: 'completed'; readonly result: FetchResult }
  | { readonly kind: 'permanent' | 'temporary'; readonly code: string; readonly message: string; readonly retryAfterMs?: number }
  | { readonly kind: 'postponed'; readonly ms: number }
  | { readonly kind: 'aborted'; readonly reason: unknown };

export type Stage = {
  store: FolderStore;
  run(task: FetchTask, options?: RunOptions): Promise<Ended>;
  objectOf(task: FetchTask): Promise<Buffer | null>;
};

type RunOptions = {
  readonly egress?: Egress;
  readonly pools?: HealthPools;
  readonly gate?: HostGate;
  readonly limits?: Partial<FetchPorts['limits']>;
  readonly lines?: IngestLogLine[];
  readonly context?: Partial<FetchContext>;
  readonly store?: FetchPorts['store'];
};

/** Call once at the top of a test file. */
export function useStage(): Stage {
  let folder = '';
  const egress = localEgress();
  const stage: Stage = {
    store: undefined as unknown as FolderStore,
    run: (task, options = {}) => run(options.store ?? stage.store, { egress, ...options }, task),
    async objectOf({ storage: { bucket, key } }) {
      const found = await stage.store.get({ bucket, key });
      return found === null ? null : buffer(found.body);
    },
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fetch-'));
    stage.store = new FolderStore(folder);
  });
  afterAll(async () => {
    egress.close();
    await rm(folder, { recursive: true, force: true });
  });
  return stage;
}

async function run(store: FetchPorts['store'], options: RunOptions & { egress: Egress }, task: FetchTask): Promise<Ended> {
  const { handler } = fetchRegistration<FetchContext>({
    store,
    egress: options.egress,
    pools: options.pools ?? new HealthPools({ pools: new Map() }),
    hosts: options.gate ?? new OpenGate(),
    limits: { maxBytes: 10_000_000, timeoutMs: 60_000, idleTimeoutMs: 30_000, redirects: 5, ...options.limits },
    log: (_, line) => options.lines?.push(line),
  });
  try {
    return { kind: 'completed', result: await handler(contextOf(options.context), task) };
  } catch (error) {
    return ended(error);
  }
}

function ended(error: unknown): Ended {
  if (error instanceof PermanentError) return { kind: 'permanent', code: error.code, message: error.message };
  if (error instanceof TemporaryError) {
    const { code, message, retryAfterMs } = error;
    return { kind: 'temporary', code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  if (error instanceof PostponeError) return { kind: 'postponed', ms: Number(error.retryAfter) };
  return { kind: 'aborted', reason: error };
}

let jobs = 0;

function contextOf(rest: Partial<FetchContext> = {}): FetchContext {
  return {
    jobId: `job-${++jobs}`,
    orgId: 'org',
    attempt: 1,
    leaseToken: jobs,
    signal: new AbortController().signal,
    checkpoint: async () => undefined,
    lastCheckpoint: async () => null,
    ...rest,
  };
}

let tasks = 0;

export function taskFor(url: string, rest: Partial<FetchTask> = {}): FetchTask {
  const id = String(++tasks);
  const storage = { bucket: BUCKET, key: `test/${id}`, metadata: [] };
  return { jobId: 'ingest-job', jobType: 'test', resourceId: id, url, headers: [], proxies: [], storage, tags: [], ...rest };
}

/** Says how an attempt ended in one word. */
export const wordOf = (end: Ended): string =>
  end.kind === 'completed'
    ? `stored ${end.result.bytes}`
    : end.kind === 'permanent' || end.kind === 'temporary'
      ? `${end.kind} ${end.code}`
      : end.kind;
