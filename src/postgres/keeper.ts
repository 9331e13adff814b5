/** Starts the embedded server again when it has ended although a process still uses it. */
import { PAUSES, pauseMs } from '../core/backoff.ts';
import { messageOf } from './failure.ts';

const LOOK_EVERY_MS = 250;

export type KeeperParams = {
  /** Named in notices. */
  home: string;
  /** Cheap: it is called several times a second. */
  isRunning(): boolean;
  /** Returns false when another process had started the server by then. Must do nothing once `isStopped` returns true. */
  restart(isStopped: () => boolean): Promise<boolean>;
  onNotice(sentence: string): void;
};

export type Keeper = { stop(): void };

/**
 * Every user of a server keeps it, not only the process that started it: that process may be gone. The server is looked at from
 * time to time because the death of somebody else's child is not reported. The watch does not keep the process alive.
 */
export function keepServer(params: KeeperParams): Keeper {
  let isStopped = false;
  let failures = 0;
  let timer: NodeJS.Timeout;
  const later = (ms: number): void => {
    if (isStopped) return;
    timer = setTimeout(() => void look(), ms);
    timer.unref();
  };
  const look = async (): Promise<void> => {
    const isLost = !params.isRunning();
    if (isLost && (await restart(params, { isStopped: () => isStopped, isFirst: failures === 0 }))) failures = 0;
    else if (isLost) failures++;
    later(failures === 0 ? LOOK_EVERY_MS : pauseMs(PAUSES.restartFailed, failures, Math.random()));
  };
  later(LOOK_EVERY_MS);
  return {
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

type Attempt = { isStopped: () => boolean; isFirst: boolean };

/** One notice for a restart, and one for the first of several attempts that fail. */
async function restart(params: KeeperParams, { isStopped, isFirst }: Attempt): Promise<boolean> {
  const server = `The embedded PostgreSQL of ${params.home}`;
  try {
    const wasStarted = await params.restart(isStopped);
    if (wasStarted) params.onNotice(`${server} had ended unexpectedly and was started again.`);
    return true;
  } catch (error) {
    if (isFirst && !isStopped())
      params.onNotice(`${server} has ended and could not be started again (${messageOf(error)}). Trying again.`);
    return false;
  }
}
