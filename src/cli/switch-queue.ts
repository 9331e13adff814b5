import { AppError } from '../core/errors.ts';
import { suggestion } from '../core/nearest-name.ts';
import { EXIT, type Invocation } from './command.ts';
import { withMillrace } from './connection.ts';

/** Pauses or resumes a queue that exists: a mistyped name must not look like a success. */
export async function switchQueue(invocation: Invocation, verb: 'pause' | 'resume'): Promise<number> {
  const name = invocation.args[0] as string;
  const queue = await withMillrace(invocation, async (millrace) => {
    const names = (await millrace.queues.list()).map((each) => each.name);
    if (!names.includes(name)) {
      throw new AppError('NOT_FOUND', {
        message: `There is no queue "${name}"${suggestion(name, names)}. See "millrace queues list".`,
      });
    }
    await millrace.queues[verb](name);
    return (await millrace.queues.list()).find((each) => each.name === name);
  });
  invocation.out.answer({ queue }, () => [`Queue ${name} is ${queue?.pausedAt == null ? 'open' : 'paused'}.`]);
  return EXIT.ok;
}
