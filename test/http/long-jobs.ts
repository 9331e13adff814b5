import { onTestFinished } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import type { Registration } from '../../src/engine/work/registry.ts';
import { untilAborted } from '../library/fixture.ts';

/** Jobs of the kind RUNS_LONG that a test keeps running, so that it finds them so however busy the machine is. */
export class LongJobs {
  #held: Promise<void> | null = null;

  /** From here on they do not end by themselves. They may end when the function is called that it returns, or the test has finished. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const release = () => {
      resolve();
      if (this.#held === promise) this.#held = null;
    };
    this.#held = promise;
    onTestFinished(release);
    return release;
  }

  /** For `addExecutionCrew`: its crew, which waits with the end of these jobs. */
  crewOf(engine: Engine): Engine {
    const addCrew: Engine['addCrew'] = ({ registrations, ...crew }) =>
      engine.addCrew({ ...crew, registrations: registrations.map((each) => this.#waiting(each)) });
    return { addCrew } as Engine;
  }

  #waiting(registration: Registration): Registration {
    const handler: Registration['handler'] = async (context, payload) => {
      const result = await registration.handler(context, payload);
      const isLong = (payload as { work_kind?: string }).work_kind === 'RUNS_LONG';
      if (isLong && this.#held !== null) await Promise.race([this.#held, untilAborted(context.signal)]);
      return result;
    };
    return { ...registration, handler };
  }
}
