import { dictionary } from './dictionary.ts';
import type { Failure } from './failure.ts';

/**
 * A failure as callers may see it. Messages of the operating system and of databases name files, addresses and tables of the server.
 * Only their code is shown. Other messages and stack traces keep the names of files and lose their folders. The ledger keeps everything:
 * an operator reads it with `millrace jobs get`.
 */
export function publicFailure({ context: _, ...failure }: Failure): Omit<Failure, 'context'> {
  const { stackTrace } = failure;
  const message = publicMessage(failure);
  return { ...failure, message, ...(stackTrace === undefined ? {} : { stackTrace: stackWith(message, stackTrace) }) };
}

export function publicContext({ context = {} }: Failure): Record<string, string> {
  return dictionary(Object.entries(context).map(([name, text]) => [name, withoutFolders(text)]));
}

const SYSTEM_CODE = /^E[A-Z0-9]{2,}$/;

export function publicMessage({ code, message }: Pick<Failure, 'code' | 'message'>): string {
  if (code.startsWith('NETWORK_')) return `a connection of the handler failed (${code.slice('NETWORK_'.length)})`;
  if (code.startsWith('SQLSTATE_')) return `a database refused a statement of the handler (${code})`;
  if (SYSTEM_CODE.test(code)) return `a system call of the handler failed (${code})`;
  return withoutFolders(message);
}

const FIRST_FRAME = /^ {4}at /m;

/** The frames of a stack, after the message that is shown. Without frames nothing of the stack is known to be harmless. */
function stackWith(message: string, stack: string): string {
  const frames = FIRST_FRAME.exec(stack)?.index;
  const name = /^[\w$.]*(?=[:\n])/.exec(stack)?.[0] || 'Error';
  const head = `${name}: ${message}`;
  return frames === undefined ? head : `${head}\n${withoutFolders(stack.slice(frames).replaceAll(FRAME_FOLDERS, '$1'))}`;
}

/** The place of a frame: whatever folder it names, it is one of the server. */
const FRAME_FOLDERS = /(^ {4}at (?:.*\()?)(?:file:\/\/)?(?:[A-Za-z]:)?[/\\](?:[^\n()]*[/\\])?/gm;

const URLS = /\b(?!file:)[a-z][a-z0-9+.-]*:\/\/[^\s'"<>]+/gi;
/** An absolute path to a file with an extension, or below a usual folder of an operating system. Paths of HTTP are neither. */
const NAME = String.raw`[^\s/\\'"<>|:*?(),;]`;
const ROOTS = 'home|root|usr|var|etc|opt|srv|tmp|mnt|proc|sys|dev|run|app|data|workspace|Users|private|Library|Volumes';
const PATHS = new RegExp(
  String.raw`(?:file:\/\/)?(?<![\w.~-])(?:` +
    String.raw`[A-Za-z]:\\(?:${NAME}+\\)*(${NAME}*)` +
    String.raw`|\/(?:${ROOTS})\/(?:${NAME}+\/)*(${NAME}*)` +
    String.raw`|\/(?:${NAME}+\/)+(${NAME}+\.[A-Za-z]\w{0,4}\b))`,
  'g',
);

/** Replaces absolute paths by the name of the file. URLs stay. */
function withoutFolders(text: string): string {
  if (!/[/\\]/.test(text)) return text;
  const urls: string[] = [];
  const kept = text.replaceAll(URLS, (url) => `\0${urls.push(url) - 1}\0`);
  const short = kept.replaceAll(PATHS, (_all, ...names: unknown[]) => String(names.slice(0, 3).find(Boolean) ?? ''));
  return short.replaceAll(/\0(\d+)\0/g, (_all, index) => urls[Number(index)] ?? '');
}
