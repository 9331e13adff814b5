/** Restarts the embedded server when it ends while a process still uses it. */
import { PAUSES, pauseMs } from '../core/backoff.ts';
import { messageOf } from './failure.ts';

const CHECK_EVERY_MS = 250;

export type KeeperParams = {
  /** Named in notices. */
  home: string;
  /** Must be cheap, because it is called several times per second. */
  isRunning(): boolean;
  /** Returns false when another process has already restarted the server. Must do nothing once `isStopped` returns true. */
  restart(isStopped: () => boolean): Promise<boolean>;
  onNotice(sentence: string): void;
};

export type Keeper = { stop(): void };

/**
 * Every process that uses the server watches it, because the process that started it may have ended. It polls, because a process is
 * not notified when a child of another process ends. The timer does not keep the process alive.
 */
export function keepServer(params: KeeperParams): Keeper {
  let isStopped = false;
  let failures = 0;
  let timer: NodeJS.Timeout;
  const later = (ms: number): void => {
    if (isStopped) return;
    timer = setTimeout(() => void check(), ms);
    timer.unref();
  };
  const check = async (): Promise<void> => {
    const isDown = !params.isRunning();
    if (isDown && (await restart(params, { isStopped: () => isStopped, isFirst: failures === 0 }))) failures = 0;
    else if (isDown) failures++;
    later(failures === 0 ? CHECK_EVERY_MS : pauseMs(PAUSES.restartFailed, failures, Math.random()));
  };
  later(CHECK_EVERY_MS);
  return {
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

type Attempt = { isStopped: () => boolean; isFirst: boolean };

/** Reports a restart, and the first of several failed attempts. */
async function restart(params: KeeperParams, { isStopped, isFirst }: Attempt): Promise<boolean> {
  const server = `The embedded PostgreSQL of ${params.home}`;
  try {
    const wasStarted = await params.restart(isStopped);
    if (wasStarted) params.onNotice(`${server} ended unexpectedly and was restarted.`);
    return true;
  } catch (error) {
    if (isFirst && !isStopped()) params.onNotice(`${server} ended and could not be restarted (${messageOf(error)}). Trying again.`);
    return false;
  }
}
