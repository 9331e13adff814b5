const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const;

/** An age in one unit, to read at a glance: `4 s`, `12 min`, `3 h`, `2 d`. */
export function ageText(ms: number): string {
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ['s', 1_000];
  return `${Math.floor(ms / size)} ${unit}`;
}

/** A latency: `3.4 ms`, `1.20 s`. */
export const latencyText = (ms: number): string => (ms < 1_000 ? `${ms.toFixed(1)} ms` : `${(ms / 1_000).toFixed(2)} s`);
