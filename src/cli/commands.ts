import type { Command } from './command.ts';
import { bench } from './commands/bench.ts';
import { configPrint } from './commands/config-print.ts';
import { doctor } from './commands/doctor.ts';
import { help } from './commands/help.ts';
import { jobsCancel } from './commands/jobs-cancel.ts';
import { jobsExplain, jobsGet } from './commands/jobs-get.ts';
import { jobsList } from './commands/jobs-list.ts';
import { jobsLogs } from './commands/jobs-logs.ts';
import { jobsRetry } from './commands/jobs-retry.ts';
import { jobsSubmit } from './commands/jobs-submit.ts';
import { jobsWatch } from './commands/jobs-watch.ts';
import { keysCreate, keysList, keysRevoke, orgsCreate } from './commands/keys.ts';
import { migrate } from './commands/migrate.ts';
import { orgsList } from './commands/orgs-list.ts';
import { queuesList, queuesPause, queuesResume } from './commands/queues.ts';
import { schedulesList } from './commands/schedules-list.ts';
import { serve } from './commands/serve.ts';
import { simulate } from './commands/simulate.ts';
import { stats } from './commands/stats.ts';
import { up } from './commands/up.ts';
import { version } from './commands/version.ts';
import { work } from './commands/work.ts';
import { workersList } from './commands/workers-list.ts';

/** Every command, in the order in which the help lists them. */
export const COMMANDS: readonly Command[] = [
  up,
  serve,
  work,
  jobsSubmit,
  jobsGet,
  jobsList,
  jobsExplain,
  jobsLogs,
  jobsWatch,
  jobsCancel,
  jobsRetry,
  stats,
  queuesList,
  queuesPause,
  queuesResume,
  workersList,
  schedulesList,
  orgsList,
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
