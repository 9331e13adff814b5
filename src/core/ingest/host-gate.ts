/** How a request to a host ended. */
export type HostOutcome = {
  readonly bytes: number;
  /** Null: there was no response. */
  readonly status: number | null;
  readonly failed: boolean;
  /** What the server asked for with `Retry-After`. */
  readonly retryAfterMs?: number | undefined;
};

/** A place at a host. One request at a time may be sent with it. */
export type HostEntry = {
  readonly kind: 'entered';
  /** Whether the place may have been given to another process. */
  readonly isLost: boolean;
  /** Sets what to call when that happens: the request must end immediately. A later call replaces the listener. */
  onLost(listener: () => void): void;
  /** Counts a request after which another one follows at the same place. */
  note(outcome: HostOutcome): void;
  /** Gives the place back. Only the first call counts. */
  leave(outcome: HostOutcome): void;
};

export type HostLater = { readonly kind: 'later'; readonly retryAfterMs: number };

/** Decides when a request to a host may start, for all processes and all orgs. */
export type HostGate = {
  /** Returns `later` if the host cannot be entered soon. Orgs that wait take turns. */
  enter(host: string, signal: AbortSignal, options?: { readonly orgId?: string }): Promise<HostEntry | HostLater>;
};

export type HostLimits = {
  /** How many requests to one host are in flight at the same time. */
  readonly concurrency: number;
  /** How many requests to one host start within a second. Null: any number. */
  readonly rate: number | null;
};

/** A host as operators see it. */
export type HostView = {
  /** With the port, unless it is the default of the scheme. */
  readonly host: string;
  readonly requests: number;
  readonly bytes: number;
  readonly errors: number;
  /** How many requests are in flight. */
  readonly running: number;
  /** How many may be in flight now. */
  readonly concurrency: number;
  readonly rate: number | null;
  readonly backoffUntil: Date | null;
  readonly paused: boolean;
};

const THROTTLING: ReadonlySet<number> = new Set([429, 503]);

/** Whether the server asks its clients to slow down. */
export const isThrottling = ({ status }: HostOutcome): boolean => status !== null && THROTTLING.has(status);
