import type { Policy } from '../../core/policy.ts';
import type { Wake } from './producer-options.ts';
import { HandlerRegistry, type RegisteredHandler, type Registration } from './registry.ts';
import type { Supervisor } from './supervisor.ts';

/** Handlers with queues and slots of their own. */
export type Crew = {
  /** Appended to the name of the process. */
  name: string;
  slots: number;
  queues: readonly string[];
  registrations: readonly Registration[];
  /** The policy of the crew's jobs, if it differs from the engine's. Its timeout is the longest that a registration may ask for. */
  profile?: Policy;
  /** Claims a job with one statement and starts it with the next. In between, readers see the job under lease. */
  startsApart?: boolean;
  /** All its jobs belong to one org, so the crew reserves no slot for others. */
  servesOneOrg?: boolean;
  /** Whether the log lines of its handlers are stored with their jobs. Default: true. */
  storesLogs?: boolean;
};

export type CrewParts = Omit<Crew, 'registrations' | 'profile'> & { registry: HandlerRegistry };

/**
 * All crews of a process. Work that waits for others, such as servers on the internet, gets a separate crew. If its
 * handlers hang, they occupy no slot of another crew.
 */
export class Crews {
  readonly #profile: Policy;
  readonly #makeSupervisor: (parts: CrewParts) => Supervisor;
  readonly #registries: HandlerRegistry[] = [];
  readonly #supervisors: Supervisor[] = [];

  constructor(params: { profile: Policy; makeSupervisor(parts: CrewParts): Supervisor }) {
    this.#profile = params.profile;
    this.#makeSupervisor = params.makeSupervisor;
  }

  add({ registrations, profile = this.#profile, ...crew }: Crew): void {
    const registry = new HandlerRegistry(profile);
    for (const registration of registrations) registry.register(registration);
    this.join({ ...crew, registry });
  }

  join(parts: CrewParts): void {
    this.#registries.push(parts.registry);
    this.#supervisors.push(this.#makeSupervisor(parts));
  }

  handlerOf(type: string): RegisteredHandler | undefined {
    for (const registry of this.#registries) {
      const handler = registry.get(type);
      if (handler !== undefined) return handler;
    }
    return undefined;
  }

  /** If one supervisor fails to start, the others have finished starting and may be at work. */
  async start(): Promise<void> {
    const starts = await Promise.allSettled(this.#supervisors.map((supervisor) => supervisor.start()));
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
  }

  async drain(graceMs: number): Promise<void> {
    await Promise.all(this.#supervisors.map((supervisor) => supervisor.drain(graceMs)));
  }

  /** Whether a handler is running. */
  get isBusy(): boolean {
    return this.#supervisors.some((supervisor) => supervisor.isBusy);
  }

  wake(how?: Wake): void {
    for (const supervisor of this.#supervisors) supervisor.wake(how);
  }

  /** A job of this type is ready. */
  wakeFor(type: string): void {
    this.#supervisors.forEach((supervisor, index) => {
      if (this.#registries[index]?.get(type) !== undefined) supervisor.wake();
    });
  }

  refresh(): void {
    for (const supervisor of this.#supervisors) supervisor.refresh();
  }

  checkCancels(): void {
    for (const supervisor of this.#supervisors) supervisor.checkCancels();
  }
}
