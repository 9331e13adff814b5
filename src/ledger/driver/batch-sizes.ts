let observer: ((operation: string, jobs: number) => void) | null = null;

/** Calls the observer with the number of jobs in each statement of the hot path that writes jobs. */
export function observeBatches(next: typeof observer): void {
  observer = next;
}

export function noteBatch(operation: 'submit' | 'complete' | 'settle', jobs: number): void {
  observer?.(operation, jobs);
}
