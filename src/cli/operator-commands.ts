/** The commands that need no server and no worker. They share most of what they load, and the build puts them into one file. */
export { alertsAck, alertsList } from './commands/alerts.ts';
export { artifactsGet, artifactsLink, artifactsList, artifactsPut } from './commands/artifacts.ts';
export { auditExport, auditList, auditVerify } from './commands/audit.ts';
export { bench } from './commands/bench.ts';
export { categories } from './commands/categories.ts';
export { configPrint } from './commands/config-print.ts';
export { dlqDiscard, dlqFix, dlqGroups, dlqList, dlqReplay, dlqRestore, dlqShow } from './commands/dlq.ts';
export { doctor } from './commands/doctor.ts';
export { exportIngest, importIngest } from './commands/export.ts';
export { fetchCancel, fetchList, fetchLogs, fetchRetry, fetchShow } from './commands/fetch-jobs.ts';
export { fetchSubmit, fetchWatch } from './commands/fetch-submit.ts';
export { fetchHosts, fetchProxies } from './commands/fetch-targets.ts';
export { idempotencyShow } from './commands/idempotency.ts';
export { typesList, typesPause, typesResume } from './commands/job-types.ts';
export { jobsCancel } from './commands/jobs-cancel.ts';
export { jobsExplain, jobsGet } from './commands/jobs-get.ts';
export { jobsList } from './commands/jobs-list.ts';
export { jobsLogs } from './commands/jobs-logs.ts';
export { jobsRetry } from './commands/jobs-retry.ts';
export { jobsSubmit } from './commands/jobs-submit.ts';
export { jobsWatch } from './commands/jobs-watch.ts';
export { keysCreate, keysList, keysRevoke, orgsCreate } from './commands/keys.ts';
export { logs } from './commands/logs.ts';
export { maintenanceList, maintenancePause, maintenanceResume, maintenanceRun } from './commands/maintenance.ts';
export { migrate } from './commands/migrate.ts';
export {
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
export { orgsDelete, orgsRename, orgsShow } from './commands/orgs.ts';
export { orgsList } from './commands/orgs-list.ts';
export { producersCreate, producersDelete, producersList } from './commands/producers.ts';
export { projectsCreate, projectsList, projectsRename } from './commands/projects.ts';
export { queuesDrain, queuesList, queuesPause, queuesResume, queuesSet, queuesShow } from './commands/queues.ts';
export { schedulesDelete, schedulesNext, schedulesPause, schedulesResume, schedulesRun, schedulesShow } from './commands/schedules.ts';
export { schedulesList } from './commands/schedules-list.ts';
export { stats } from './commands/stats.ts';
export { top } from './commands/top.ts';
export { workersList } from './commands/workers-list.ts';
