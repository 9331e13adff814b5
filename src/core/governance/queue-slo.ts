/** How long the oldest waiting job of a queue may wait before an alert is raised, in seconds. A queue without an entry has the default. */
const SLO_SECONDS: ReadonlyMap<string, number> = new Map([
  ['q:critical', 5],
  ['q:default', 60],
  ['q:notifications', 30],
  ['q:planning', 600],
  ['q:exports', 600],
  ['q:maintenance', 3_600],
]);

const DEFAULT_SLO_SECONDS = 60;

export const defaultSloSeconds = (queue: string): number => SLO_SECONDS.get(queue) ?? DEFAULT_SLO_SECONDS;
