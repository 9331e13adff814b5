import { AppError } from '../../core/errors.ts';
import type { Policy } from '../../core/policy.ts';
import { HandlerRegistry, type RegisteredHandler, type Registration } from './registry.ts';
import type { Supervisor } from './supervisor.ts';

/** Workers with handlers, slots and queues of their own. */
export type Crew = {
  /** Shown behind the name of the process. */
  name: string;
  slots: number;
  queues: readonly string[];
  registrations: readonly Registration[];
  /** The policy of the crew's jobs, where it is not that of the engine. Its timeout is the longest a registration may ask for. */
  profile?: Policy;
  /** Claims a job with one statement and starts it with the next: between the two, readers see it under lease. */
  startsApart?: boolean;
};

export type CrewParts = Omit<Crew, 'registrations' | 'profile'> & { registry: HandlerRegistry };

/**
 * Everything in one process that runs jobs. Work that waits long for others, such as answers of strangers' servers, gets a crew
 * of its own: however many of its handlers hang, no slot of another crew is taken.
 */
export class Crews {
  readonly #profile: Policy;
  readonly #make: (parts: CrewParts) => Supervisor;
  readonly #registries: HandlerRegistry[] = [];
  readonly #supervisors: Supervisor[] = [];

  constructor(params: { profile: Policy; make(parts: CrewParts): Supervisor }) {
    this.#profile = params.profile;
    this.#make = params.make;
  }

  add({ registrations, profile = this.#profile, ...crew }: Crew): void {
    const registry = new HandlerRegistry(profile);
    for (const registration of registrations) {
      const { status, issues } = registry.register(registration);
      if (status === 'INVALID') throw new AppError('INVALID_HANDLER', { details: issues });
    }
    this.join({ ...crew, registry });
  }

  join(parts: CrewParts): void {
    this.#registries.push(parts.registry);
    this.#supervisors.push(this.#make(parts));
  }

  handlerOf(type: string): RegisteredHandler | undefined {
    for (const registry of this.#registries) {
      const handler = registry.get(type);
      if (handler !== undefined) return handler;
    }
    return undefined;
  }

  /** When it fails none is on its way any more, but some may be at work. */
  async start(): Promise<void> {
    const starts = await Promise.allSettled(this.#supervisors.map((supervisor) => supervisor.start()));
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
  }

  async drain(graceMs: number): Promise<void> {
    await Promise.all(this.#supervisors.map((supervisor) => supervisor.drain(graceMs)));
  }

  wake(): void {
    for (const supervisor of this.#supervisors) supervisor.wake();
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
