/** Samples the memory of a process every second. */
import { readFileSync } from 'node:fs';

export type Growth = { beganMb: number; endedMb: number };

const EVERY_MS = 1_000;
const RESIDENT = /^VmRSS:\s+(\d+) kB$/m;

export class MemoryWatch {
  readonly #samplesMb: number[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(pid: number) {
    const look = () => this.#samplesMb.push(residentMb(pid));
    this.#timer = setInterval(look, EVERY_MS).unref();
    look();
  }

  /** Its mean in the second quarter of the time, when everything is warm, and in the last. */
  stop(): Growth {
    clearInterval(this.#timer);
    const samples = this.#samplesMb;
    const quarter = Math.max(1, Math.floor(samples.length / 4));
    return { beganMb: mean(samples.slice(quarter, 2 * quarter)), endedMb: mean(samples.slice(-quarter)) };
  }
}

/** The memory of the process now. */
export function residentMb(pid: number): number {
  const [, kilobytes] = RESIDENT.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  if (kilobytes === undefined) throw new Error(`Process ${pid} does not say how much memory it holds.`);
  return Number(kilobytes) / 1_024;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
