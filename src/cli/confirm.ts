import { createInterface } from 'node:readline/promises';
import type { Output } from './output.ts';
import { UsageError } from './usage-error.ts';
import { visibleLine } from './visible-text.ts';

export const CONFIRM_OPTIONS = {
  'dry-run': { type: 'boolean', help: 'count the jobs that would change, and change nothing' },
  yes: { type: 'boolean', help: 'do not ask for confirmation' },
} as const;

/** What a command is about to do, in words: `retry`, `12 jobs of the org acme`. */
export type Plan = { command: string; verb: string; jobs: number; of: string };

export type Terminal = { input: NodeJS.ReadableStream & { isTTY?: boolean }; output: NodeJS.WritableStream };

const PROCESS: Terminal = { input: process.stdin, output: process.stderr };

/** Returns once the user has typed the number of jobs. Throws if there is no terminal to ask, or if the user typed something else. */
export async function confirm({ command, verb, jobs, of }: Plan, out: Output, terminal: Terminal = PROCESS): Promise<void> {
  const what = `${verb} ${jobs} ${jobs === 1 ? 'job' : 'jobs'} of ${of}`;
  if (terminal.input.isTTY !== true || out.json) {
    throw new UsageError(`This would ${what}. Nothing was changed. Repeat it with --yes, or look first with --dry-run.`, command);
  }
  const lines = createInterface(terminal);
  // It rejects after Ctrl-C and Ctrl-D.
  const answer = await lines.question(visibleLine(`This will ${what}. Type ${jobs} to continue: `)).catch(() => '');
  lines.close();
  if (answer.trim() !== String(jobs)) throw new UsageError(`You did not type ${jobs}. Nothing was changed.`, command);
}

export type NamedPlan = { command: string; what: string; name: string };

/** Like `confirm`, for one thing: returns once the user has typed its name. */
export async function confirmName({ command, what, name }: NamedPlan, out: Output, terminal: Terminal = PROCESS): Promise<void> {
  if (terminal.input.isTTY !== true || out.json) {
    throw new UsageError(`This would ${what}. Nothing was changed. Repeat it with --confirm ${name} or --yes.`, command);
  }
  const lines = createInterface(terminal);
  const answer = await lines.question(visibleLine(`This will ${what}. Type ${name} to continue: `)).catch(() => '');
  lines.close();
  if (answer.trim() !== name) throw new UsageError(`You did not type ${name}. Nothing was changed.`, command);
}
