/** Every command, the common ones several times: the more often one stands here, the more often it is drawn. */
import fc from 'fast-check';
import { completeLate, leaseAgain, leaseSomeAhead } from './ahead-commands.ts';
import { cancel, retry, spawn, submitDependent, submitKeyed, submitPlain } from './caller-commands.ts';
import type { LedgerCommand } from './command.ts';
import { bury, expire, pass, release, replaceWorker, stage } from './keeper-commands.ts';
import { grant, submitLimited } from './limit-commands.ts';
import { freeze, rescue } from './rescue-commands.ts';
import { submitUnique } from './unique-commands.ts';
import { advance, beat, checkpoint, claim, giveBack, progress, settle, start } from './worker-commands.ts';

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

export type Mix = readonly fc.Arbitrary<LedgerCommand>[];

export const EVERYTHING: Mix = [
  ...times(4, submitPlain),
  submitKeyed,
  ...times(3, submitDependent),
  ...times(3, submitLimited),
  ...times(4, grant),
  ...times(3, submitUnique),
  ...times(2, claim),
  ...times(4, leaseSomeAhead),
  ...times(4, completeLate),
  leaseAgain,
  ...times(3, start),
  ...times(5, advance),
  ...times(5, settle),
  ...times(3, beat),
  ...times(3, progress),
  ...times(3, checkpoint),
  spawn,
  ...times(3, cancel),
  ...times(2, retry),
  ...times(2, stage),
  ...times(3, release),
  ...times(3, rescue),
  ...times(3, pass),
  ...times(4, freeze),
  ...times(2, giveBack),
  expire,
  bury,
  replaceWorker,
];

/** Workers that freeze and write on, and little else. */
export const ZOMBIES: Mix = [
  ...times(2, submitPlain),
  ...times(3, freeze),
  ...times(2, leaseSomeAhead),
  ...times(2, completeLate),
  ...times(2, leaseAgain),
  ...[claim, start, advance, settle, giveBack, beat, progress, checkpoint, stage, rescue],
];

const MAX_COMMANDS = 80;

/** `replayPath` as a failure printed it, to repeat that failure alone. */
export const commandsOf = (mix: Mix, replayPath?: string): fc.Arbitrary<Iterable<LedgerCommand>> =>
  fc.commands([...mix], { maxCommands: MAX_COMMANDS, size: 'max', replayPath });
