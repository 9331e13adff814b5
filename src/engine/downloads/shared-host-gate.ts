import type { HostEntry, HostGate, HostLater, HostLimits } from '../../core/ingest/host-gate.ts';
import { GateSession } from '../../ledger/downloads/gate-session.ts';
import { findDeadGates, pingGate, removeGates } from '../../ledger/downloads/gates.ts';
import { askForPlaces } from '../../ledger/downloads/host-places.ts';
import { forgetDownloadHosts } from '../../ledger/downloads/hosts.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import { LoopService } from '../loop.ts';
import { HostLine } from './host-line.ts';
import { LaterPlan } from './later-plan.ts';

const ROUND_MS = 1_000;
/**
 * A process that lost its session ends its requests as soon as it notices, which takes it a moment. Its places are free for others only
 * after this time.
 */
const SETTLE_MS = 2_000;
const FORGET_EVERY_MS = 300_000;
/** For tasks without an org. */
const NO_ORG = '';

export type SharedHostGateOptions = { database: Database; events: EventHub; limits: HostLimits };

/**
 * Keeps the limits of hosts over all processes and orgs. Each process has a session, and the ledger knows which session has which places. When
 * a process dies, its session ends, and the others free its places. When a process loses its session, it ends its requests.
 */
export class SharedHostGate extends LoopService implements HostGate {
  readonly #options: SharedHostGateOptions;
  readonly #lines = new Map<string, HostLine>();
  readonly #plan = new LaterPlan();
  /** Since when gates are known to be dead. */
  #deadSince: ReadonlyMap<number, number> = new Map();
  #session: GateSession | null = null;
  #forgotMs = performance.now();

  constructor(options: SharedHostGateOptions) {
    super({ name: 'host gate', events: options.events });
    this.#options = options;
  }

  enter(host: string, signal: AbortSignal, { orgId = NO_ORG }: { orgId?: string } = {}): Promise<HostEntry | HostLater> {
    return this.#lineOf(host).enter(orgId, signal);
  }

  override async stop(): Promise<void> {
    await super.stop();
    for (const line of this.#lines.values()) line.close();
    const session = this.#session;
    this.#session = null;
    if (session === null) return;
    for (const line of this.#lines.values()) line.lose();
    await removeGates(session, [session.gateId]).catch(() => undefined);
    await session.close();
  }

  async round(): Promise<number> {
    if (this.#session?.isLost) this.#session = null;
    if (this.#session === null) {
      this.#session = await this.#open();
      for (const line of this.#lines.values()) line.refresh(0);
    }
    const { gateId } = this.#session;
    if (!(await pingGate(this.#session, gateId))) this.#session.lose();
    for (const [host, line] of this.#lines) {
      if (line.isIdle) this.#lines.delete(host);
      else line.refresh(ROUND_MS);
    }
    await this.#freeDead();
    await this.#forget();
    return ROUND_MS;
  }

  #lineOf(host: string): HostLine {
    const known = this.#lines.get(host);
    if (known !== undefined) return known;
    const line = new HostLine({
      host,
      limits: this.#options.limits,
      ask: async (request) => {
        const session = this.#session;
        if (session === null) throw new Error('the process has no session for downloads');
        const answer = await askForPlaces(session, { ...request, ...this.#options.limits, gateId: session.gateId });
        if (this.#session !== session) throw new Error('the session for downloads has ended');
        return answer;
      },
      laterMs: (orgId, spacingMs) => this.#plan.next({ host, orgId, spacingMs, nowMs: performance.now() }),
    });
    this.#lines.set(host, line);
    return line;
  }

  async #open(): Promise<GateSession> {
    const session = await GateSession.open(this.#options.database.url);
    session.onLost(() => {
      if (this.#session === session) this.#session = null;
      for (const line of this.#lines.values()) line.lose();
      this.wake();
    });
    if (session.isLost) throw new Error('the session for downloads has ended');
    return session;
  }

  async #freeDead(): Promise<void> {
    const { maintenance } = this.#options.database;
    const nowMs = performance.now();
    const dead = await findDeadGates(maintenance);
    this.#deadSince = new Map(dead.map((id) => [id, this.#deadSince.get(id) ?? nowMs]));
    const due = dead.filter((id) => nowMs - (this.#deadSince.get(id) ?? nowMs) >= SETTLE_MS);
    if (due.length > 0) await removeGates(maintenance, due);
  }

  async #forget(): Promise<void> {
    if (performance.now() - this.#forgotMs < FORGET_EVERY_MS) return;
    this.#forgotMs = performance.now();
    await forgetDownloadHosts(this.#options.database.maintenance);
  }
}
