/** The server's log: bounded by emptying it at a start that finds it grown, and readable from where a start began. */
import { type FileHandle, open, stat, truncate } from 'node:fs/promises';
import { codeOf } from './failure.ts';

const MAX_BYTES = 10 * 1024 * 1024;
const TAIL_BYTES = 16 * 1024;

export type ServerLog = {
  fd: number;
  /** The end of what was written since the log was opened. */
  written(): Promise<string>;
  close(): Promise<void>;
};

export async function openServerLog(path: string): Promise<ServerLog> {
  if ((await sizeOf(path)) > MAX_BYTES) await truncate(path);
  const startedAt = await sizeOf(path);
  const file = await open(path, 'a', 0o600);
  return {
    fd: file.fd,
    written: () => readFrom(path, startedAt),
    close: () => file.close(),
  };
}

export async function lastLines(path: string): Promise<string> {
  return readFrom(path, 0);
}

async function readFrom(path: string, offset: number): Promise<string> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    const { size } = await file.stat();
    const position = Math.max(offset, size - TAIL_BYTES);
    const buffer = Buffer.alloc(Math.max(0, size - position));
    await file.read(buffer, 0, buffer.length, position);
    return buffer.toString('utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return '';
    throw error;
  } finally {
    await file?.close();
  }
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    (stats) => stats.size,
    () => 0,
  );
}
