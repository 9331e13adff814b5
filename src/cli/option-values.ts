import { type DurationInput, parseDuration } from '../core/duration.ts';
import { isUuid } from '../core/ids.ts';
import { suggestion } from '../core/nearest-name.ts';
import { UsageError } from './usage-error.ts';

export function readInteger(text: string | undefined, option: string, min = 1): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min) return value;
  throw new UsageError(`--${option} takes a whole number of at least ${min}, not "${text}".`);
}

/** Zero means a free port. */
export function readPort(text: string | undefined): number | undefined {
  const port = readInteger(text, 'port', 0);
  if (port === undefined || port <= 65_535) return port;
  throw new UsageError(`--port takes a whole number from 0 to 65535, not "${text}".`);
}

/** A bare number means seconds. */
export function readDuration(text: string | undefined, option: string): DurationInput | undefined {
  return read(text, option)?.input;
}

export function readDurationMs(text: string | undefined, option: string): number | undefined {
  return read(text, option)?.ms;
}

function read(text: string | undefined, option: string): { input: DurationInput; ms: number } | undefined {
  if (text === undefined) return undefined;
  const input = /^\d+$/.test(text) ? Number(text) : text;
  const parsed = parseDuration(input);
  if (parsed.ok) return { input, ms: parsed.ms };
  throw new UsageError(`--${option}: ${parsed.message}.`);
}

/** `a,b`, given once or several times. */
export function readList(texts: readonly string[] | undefined): string[] | undefined {
  if (texts === undefined) return undefined;
  return texts.flatMap((text) => text.split(',').map((part) => part.trim())).filter((part) => part !== '');
}

export function readWords<W extends string>(texts: readonly string[] | undefined, option: string, words: readonly W[]): W[] | undefined {
  return readList(texts)?.map((text) => readWord(text, option, words) as W);
}

/** Upper and lower case are equal. */
export function readWord<W extends string>(text: string | undefined, option: string, words: readonly W[]): W | undefined {
  if (text === undefined) return undefined;
  const known = words.find((word) => word.toLowerCase() === text.toLowerCase());
  if (known !== undefined) return known;
  throw new UsageError(`--${option} does not know "${text}"${suggestion(text, words)}: use ${words.join(', ')}.`);
}

export function readTags(texts: readonly string[] | undefined): Record<string, string> | undefined {
  if (texts === undefined) return undefined;
  const pairs = texts.map((text) => {
    const at = text.indexOf('=');
    if (at < 1) throw new UsageError(`--tag takes NAME=VALUE, not "${text}".`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs);
}

export function readJobId(text: string | undefined): string {
  if (text !== undefined && isUuid(text)) return text;
  throw new UsageError(`"${text}" is not a job id. An id looks like 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d.`);
}
