import type { Readable } from 'node:stream';
import type { UrlRefusal } from '../core/target-url.ts';
import type { FaultCode } from './fault.ts';
import type { ProxyAddress } from './proxy-address.ts';

export type EgressRequest = {
  readonly url: string;
  readonly method?: 'GET' | 'HEAD' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The whole exchange: DNS, dial, TLS, headers, body, all hops. */
  readonly timeoutMs: number;
  /** Between two pieces of the body; `timeoutMs` unless given. */
  readonly idleTimeoutMs?: number;
  /** For those whom the status tells enough: the body is waited for so long, and what came of it is kept, cut or not. */
  readonly bodyWaitMs?: number;
  readonly maxBodyBytes: number;
  readonly overflow: 'truncate' | 'fail';
  /** Hops followed. 0 unless given: a 3xx is an answer like any other. */
  readonly redirects?: number;
  readonly proxy?: ProxyAddress | null;
  readonly signal?: AbortSignal;
};

export type EgressFacts = {
  readonly url: string;
  readonly address: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly hops: number;
  readonly durationMs: number;
};
export type EgressFailure = {
  readonly kind: 'failed';
  readonly code: FaultCode;
  readonly message: string;
  readonly durationMs: number;
};
/** Nothing was dialled for that URL. */
export type EgressRefused = {
  readonly kind: 'refused';
  readonly code: UrlRefusal['code'];
  readonly message: string;
  readonly url: string;
  readonly durationMs: number;
};
export type EgressAnswer =
  | (EgressFacts & { readonly kind: 'answered'; readonly body: Uint8Array; readonly isTruncated: boolean })
  | EgressRefused
  | EgressFailure;
/** The body fails with an EgressBodyError. */
export type EgressStream =
  | (EgressFacts & { readonly kind: 'opened'; readonly body: Readable })
  | EgressRefused
  | EgressFailure;
