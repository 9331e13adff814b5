import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./server-user.ts', import.meta.url));

export type ServerUser = {
  child: ChildProcess;
  url: string;
  close(): Promise<void>;
  kill(signal: NodeJS.Signals): Promise<void>;
};

/** Resolves when the process has opened the server; `rounds` makes it open and close that often before. */
export async function spawnUser(home: string, rounds = 1): Promise<ServerUser> {
  const child = spawn(process.execPath, [SCRIPT, home, String(rounds)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // A process group of its own, as a program in a terminal has.
    detached: true,
  });
  const exited = once(child, 'exit');
  const first = await Promise.race([once(child.stdout, 'data'), exited.then(() => null)]);
  if (first === null) throw new Error('the process ended before it had opened the server');
  return {
    child,
    url: String(first[0]).trim(),
    close: async () => {
      child.stdin.write('close\n');
      const [code] = await exited;
      if (code !== 0) throw new Error(`the process ended with ${code}`);
    },
    kill: async (signal) => {
      process.kill(-child.pid!, signal);
      await exited;
    },
  };
}
