import type { Readable } from 'node:stream';
import type { DownloadStore } from '../core/ingest/download-store.ts';
import type { HostGate } from '../core/ingest/host-gate.ts';
import type { IngestLogLine } from '../core/ingest/log-line.ts';
import type { ProxyAddress, ProxyPools } from '../core/ingest/proxy-pools.ts';

/** The part of the handler context that a download needs. */
export type FetchContext = {
  readonly jobId: string;
  readonly orgId: string;
  readonly attempt: number;
  readonly leaseToken: number;
  readonly signal: AbortSignal;
  checkpoint(state: unknown): Promise<void>;
  lastCheckpoint<T = unknown>(): Promise<T | null>;
};

export type HopAhead = {
  readonly url: string;
  readonly host: string;
  readonly redirect: number | null;
  /** Ends the whole request, with all redirects. */
  abort(): void;
};

type OpenRequest = {
  readonly url: string;
  readonly method: 'GET';
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly overflow: 'fail';
  readonly redirects: number;
  readonly proxy: ProxyAddress | null;
  readonly mayForward: true;
  readonly reuses: true;
  readonly wholeUpToBytes: number;
  readonly signal: AbortSignal;
  beforeHop(hop: HopAhead): Promise<boolean>;
};

export type OpenedResponse = {
  readonly kind: 'opened';
  readonly url: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Whole if it is short. */
  readonly body: Readable | Uint8Array;
};

/** The result of a request whose body is read as a stream, or was read whole. */
export type OpenAnswer =
  | OpenedResponse
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly blamesTarget: boolean };

type FetchLimits = {
  readonly maxBytes: number;
  /** For the whole download, with all redirects and proxies. */
  readonly timeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly redirects: number;
};

export type FetchPorts = {
  readonly store: DownloadStore;
  readonly egress: { openOrRead(request: OpenRequest): Promise<OpenAnswer> };
  readonly pools: ProxyPools;
  readonly hosts: HostGate;
  readonly limits: FetchLimits;
  /** Counts the attempts that sent a request, including the current one. `context.attempt` also counts attempts that waited for the host and ended. */
  attemptsOf?(job: { readonly orgId: string; readonly jobId: string }): Promise<number>;
  /** Adds a line to the log of an ingest job. Never waits. */
  log(jobId: string, line: IngestLogLine): void;
  /** Resolves when the lines of the job are stored, before its outcome is. */
  flushLog?(jobId: string): Promise<void>;
};
