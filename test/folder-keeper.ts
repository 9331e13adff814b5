/**
 * A process that outlives the test run whose folder it is given. However the run ends, it lets go of this process's stdin
 * with its last breath: then what the run has started is stopped and the folder is removed. A run that ends well writes a
 * word before: it has stopped everything itself.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { removeFolder } from './postgres/remove-folder.ts';
import { until } from './until.ts';

const [folder = ''] = process.argv.slice(2);
if ((await text(process.stdin)) === '') await until('no process of the run is left', () => !killProcesses());
await removeFolder(folder);

/** Test workers and the programs they started. PostgreSQL is left for those who know how to stop it. */
function killProcesses(): boolean {
  const pids = processes().filter((pid) => isOfThisRun(pid));
  for (const pid of pids) killOne(pid);
  return pids.length > 0;
}

/** None on a system without /proc, where programs of tests that a signal cut short end by themselves or not at all. */
function processes(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function isOfThisRun(pid: string): boolean {
  try {
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('postgres')) return false;
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`TMPDIR=${folder}`);
  } catch {
    return false;
  }
}

function killOne(pid: string): void {
  try {
    process.kill(Number(pid), 'SIGKILL');
  } catch {
    // It was quicker.
  }
}
