import type { Command } from './command.ts';
import { alertsAck, alertsList } from './commands/alerts.ts';
import { artifactsGet, artifactsLink, artifactsList, artifactsPut } from './commands/artifacts.ts';
import { auditExport, auditList, auditVerify } from './commands/audit.ts';
import { bench } from './commands/bench.ts';
import { categories } from './commands/categories.ts';
import { configPrint } from './commands/config-print.ts';
import { dlqDiscard, dlqFix, dlqGroups, dlqList, dlqReplay, dlqRestore, dlqShow } from './commands/dlq.ts';
import { doctor } from './commands/doctor.ts';
import { exportIngest, importIngest } from './commands/export.ts';
import { fetchCancel, fetchList, fetchLogs, fetchRetry, fetchShow } from './commands/fetch-jobs.ts';
import { fetchSubmit, fetchWatch } from './commands/fetch-submit.ts';
import { fetchHosts, fetchProxies } from './commands/fetch-targets.ts';
import { help } from './commands/help.ts';
import { idempotencyShow } from './commands/idempotency.ts';
import { typesList, typesPause, typesResume } from './commands/job-types.ts';
import { jobsCancel } from './commands/jobs-cancel.ts';
import { jobsExplain, jobsGet } from './commands/jobs-get.ts';
import { jobsList } from './commands/jobs-list.ts';
import { jobsLogs } from './commands/jobs-logs.ts';
import { jobsRetry } from './commands/jobs-retry.ts';
import { jobsSubmit } from './commands/jobs-submit.ts';
import { jobsWatch } from './commands/jobs-watch.ts';
import { keysCreate, keysList, keysRevoke, orgsCreate } from './commands/keys.ts';
import { logs } from './commands/logs.ts';
import { maintenanceList, maintenancePause, maintenanceResume, maintenanceRun } from './commands/maintenance.ts';
import { migrate } from './commands/migrate.ts';
import {
  operationsCreate,
  operationsItems,
  operationsList,
  operationsPause,
  operationsResume,
  operationsShow,
  operationsStop,
  operationsUndo,
  operationsWatch,
} from './commands/operations.ts';
import { orgsDelete, orgsRename, orgsShow } from './commands/orgs.ts';
import { orgsList } from './commands/orgs-list.ts';
import { producersCreate, producersDelete, producersList } from './commands/producers.ts';
import { projectsCreate, projectsList, projectsRename } from './commands/projects.ts';
import { queuesDrain, queuesList, queuesPause, queuesResume, queuesSet, queuesShow } from './commands/queues.ts';
import { schedulesDelete, schedulesNext, schedulesPause, schedulesResume, schedulesRun, schedulesShow } from './commands/schedules.ts';
import { schedulesList } from './commands/schedules-list.ts';
import { serve } from './commands/serve.ts';
import { simulate } from './commands/simulate.ts';
import { stats } from './commands/stats.ts';
import { top } from './commands/top.ts';
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
  logs,
  jobsWatch,
  jobsCancel,
  jobsRetry,
  dlqList,
  dlqGroups,
  dlqShow,
  dlqReplay,
  dlqDiscard,
  dlqRestore,
  dlqFix,
  operationsCreate,
  operationsList,
  operationsShow,
  operationsItems,
  operationsWatch,
  operationsPause,
  operationsResume,
  operationsStop,
  operationsUndo,
  idempotencyShow,
  artifactsPut,
  artifactsList,
  artifactsGet,
  artifactsLink,
  fetchSubmit,
  fetchList,
  fetchShow,
  fetchWatch,
  fetchLogs,
  fetchRetry,
  fetchCancel,
  fetchHosts,
  fetchProxies,
  exportIngest,
  importIngest,
  stats,
  top,
  queuesList,
  queuesShow,
  queuesSet,
  queuesPause,
  queuesResume,
  queuesDrain,
  typesList,
  typesPause,
  typesResume,
  workersList,
  categories,
  alertsList,
  alertsAck,
  maintenanceList,
  maintenanceRun,
  maintenancePause,
  maintenanceResume,
  schedulesList,
  schedulesShow,
  schedulesNext,
  schedulesPause,
  schedulesResume,
  schedulesRun,
  schedulesDelete,
  orgsList,
  orgsCreate,
  orgsShow,
  orgsRename,
  orgsDelete,
  projectsList,
  projectsCreate,
  projectsRename,
  keysCreate,
  keysRevoke,
  keysList,
  producersCreate,
  producersList,
  producersDelete,
  auditList,
  auditExport,
  auditVerify,
  configPrint,
  migrate,
  doctor,
  simulate,
  bench,
  version,
  help(() => COMMANDS),
];
