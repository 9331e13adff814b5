import { openQueueDoor } from '../../src/http/queue/door.ts';

/** A door whose queue no test fills. */
export const queueDoor = openQueueDoor({ queueSize: 100_000 });
