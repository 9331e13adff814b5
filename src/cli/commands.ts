import type { Command } from './command.ts';
import { bench } from './commands/bench.ts';
import { configPrint } from './commands/config-print.ts';
import { doctor } from './commands/doctor.ts';
import { help } from './commands/help.ts';
import { jobsCancel } from './commands/jobs-cancel.ts';
import { jobsExplain, jobsGet } from './commands/jobs-get.ts';
import { jobsList } from './commands/jobs-list.ts';
import { jobsRetry } from './commands/jobs-retry.ts';
import { jobsSubmit } from './commands/jobs-submit.ts';
import { keysCreate, keysList, keysRevoke, orgsCreate } from './commands/keys.ts';
import { migrate } from './commands/migrate.ts';
import { queuesList, queuesPause, queuesResume } from './commands/queues.ts';
import { serve } from './commands/serve.ts';
import { simulate } from './commands/simulate.ts';
import { up } from './commands/up.ts';
import { version } from './commands/version.ts';
import { work } from './commands/work.ts';

/** Every command, in the order in which the help lists them. */
export const COMMANDS: readonly Command[] = [
  up,
  serve,
  work,
  jobsSubmit,
  jobsGet,
  jobsList,
  jobsExplain,
  jobsCancel,
  jobsRetry,
  queuesList,
  queuesPause,
  queuesResume,
  orgsCreate,
  keysCreate,
  keysRevoke,
  keysList,
  configPrint,
  migrate,
  doctor,
  simulate,
  bench,
  version,
  help(() => COMMANDS),
];
