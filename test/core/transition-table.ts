import { JOB_STATES, type JobState, TERMINAL_STATES } from '../../src/core/states.ts';
import { TRANSITIONS } from '../../src/core/transitions.ts';

export const isLegal = (from: JobState, to: JobState): boolean => TRANSITIONS[from][to].length > 0;

/** The table as a Mermaid `stateDiagram-v2`, with one arrow for each legal pair. */
export function stateDiagram(): string {
  const lines = ['stateDiagram-v2', '  [*] --> pending'];
  for (const from of JOB_STATES) {
    for (const to of JOB_STATES) {
      if (isLegal(from, to)) lines.push(`  ${from} --> ${to}: ${TRANSITIONS[from][to].join(', ')}`);
    }
  }
  for (const state of TERMINAL_STATES) lines.push(`  ${state} --> [*]`);
  return lines.join('\n');
}
