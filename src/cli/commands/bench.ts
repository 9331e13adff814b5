import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AppError } from '../../core/errors.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';

const OPTIONS = { quick: { type: 'boolean', help: 'run fewer jobs; the result is less exact' } } as const;

export const bench = defineCommand({
  name: 'bench',
  summary: 'measure how many jobs per second this machine runs',
  options: OPTIONS,
  details: 'The benchmark is in bench/ of the source repository and not in the published package.',
  examples: ['millrace bench', 'millrace bench --quick'],
  run,
});

async function run({ values }: Invocation<typeof OPTIONS>): Promise<number> {
  const script = join(fileURLToPath(import.meta.url), '..', '..', '..', '..', 'bench', 'run.ts');
  if (!existsSync(script)) {
    throw new AppError('UNAVAILABLE', {
      message: 'This package does not include the benchmark. Clone the source repository and run "npm run bench" there.',
    });
  }
  const env = { ...process.env };
  if (values.database !== undefined) env.DATABASE_URL = values.database;
  if (values.home !== undefined) env.MILLRACE_HOME = values.home;
  const child = spawn(process.execPath, [script, ...(values.quick ? ['--quick'] : [])], { stdio: 'inherit', env });
  const [code] = await once(child, 'exit');
  return typeof code === 'number' ? code : EXIT.interrupted;
}
