import type { HostEntry, HostGate, HostOutcome } from '../core/ingest/host-gate.ts';
import type { HopAhead } from './fetch-ports.ts';

type PlaceParams = {
  readonly hosts: HostGate;
  readonly orgId: string;
  readonly signal: AbortSignal;
  onRedirect(hop: HopAhead): void;
  /** A host was entered for the first time. */
  onStart(): Promise<void>;
};

const REDIRECTED = { bytes: 0, failed: false } as const;

/** The place of one attempt at the host that it calls. It follows redirects, and stays while the attempt changes the proxy. */
export class Place {
  readonly #params: PlaceParams;
  #entry: HostEntry | null = null;
  #host: string | null = null;
  #retryAfterMs: number | null = null;
  #hasStarted = false;

  constructor(params: PlaceParams) {
    this.#params = params;
  }

  /** How long to wait if the host could not be entered. */
  get retryAfterMs(): number | null {
    return this.#retryAfterMs;
  }

  /** Whether the place went to another process during the request. */
  get isLost(): boolean {
    return this.#entry?.isLost ?? false;
  }

  /** Returns whether the request may be sent. */
  async enter(hop: HopAhead): Promise<boolean> {
    if (hop.redirect !== null) this.#params.onRedirect(hop);
    const passed = { ...REDIRECTED, status: hop.redirect };
    if (this.#entry !== null && this.#host === hop.host) {
      if (hop.redirect !== null) this.#entry.note(passed);
      this.#entry.onLost(hop.abort);
      return !this.isLost;
    }
    this.leave(passed);
    const { hosts, signal, orgId } = this.#params;
    const result = await hosts.enter(hop.host, signal, { orgId });
    if (result.kind === 'later') {
      this.#retryAfterMs = result.retryAfterMs;
      return false;
    }
    result.onLost(hop.abort);
    this.#entry = result;
    this.#host = hop.host;
    const isFirst = !this.#hasStarted;
    this.#hasStarted = true;
    if (isFirst) await this.#params.onStart();
    return !this.isLost;
  }

  /** The request is over, and another one to the same host follows. */
  note(outcome: HostOutcome): void {
    this.#entry?.note(outcome);
  }

  leave(outcome: HostOutcome): void {
    this.#entry?.leave(outcome);
    this.#entry = null;
    this.#host = null;
  }
}
