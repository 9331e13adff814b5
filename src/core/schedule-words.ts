/** How many jobs to submit for scheduled runs that came due while no process ran: none, one, or one for each. */
export const MISSED = ['none', 'one', 'all'] as const;
export type Missed = (typeof MISSED)[number];

/** What a scheduled run does while the job of an earlier run has not ended. */
export const OVERLAPS = ['skip', 'queue', 'replace'] as const;
export type Overlap = (typeof OVERLAPS)[number];
