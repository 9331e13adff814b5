import { parseArgs } from 'node:util';
import { lookUp } from '../core/dictionary.ts';
import { suggestion } from '../core/nearest-name.ts';
import { COMMON_OPTIONS, type Command, type CommonValues, type Options } from './command.ts';
import { COMMAND_NAMES, loadCommand } from './commands.ts';
import { UsageError } from './usage-error.ts';

export type Parsed = { command: Command; values: CommonValues & Record<string, unknown>; args: string[] };
type Words = { name: string; rest: string[] };

/** Finds the command, which common options may precede, and reads its options. Null: the line names no command. */
export async function parse(argv: readonly string[]): Promise<Parsed | null> {
  const found = findCommand(argv);
  if (found === null) return null;
  const { name, rest } = found;
  const command = await loadCommand(name);
  const options = { ...COMMON_OPTIONS, ...command.options };
  const { values, positionals } = parseOptions(rest, options, command);
  if (values.help !== true) checkCount(positionals.length, command);
  return { command, values, args: positionals };
}

/** Reads only the common options, so that even an invalid command line can choose the output format. */
export function peekCommon(argv: readonly string[]): CommonValues {
  return parseArgs({ args: [...argv], options: parserOptions(COMMON_OPTIONS), strict: false }).values as CommonValues;
}

function findCommand(argv: readonly string[]): Words | null {
  const one = firstWord(argv);
  if (one === null) return null;
  if (COMMAND_NAMES.includes(one.name)) return one;
  const family = COMMAND_NAMES.filter((name) => name.startsWith(`${one.name} `));
  if (family.length === 0) throw unknownCommand(one.name, COMMAND_NAMES);
  const two = firstWord(one.rest);
  if (two === null && peekCommon(argv).help !== true) throw missingWord(one.name, family);
  if (two === null) return findCommand(['help', one.name]);
  const name = `${one.name} ${two.name}`;
  if (family.includes(name)) return { name, rest: two.rest };
  throw unknownCommand(name, family);
}

/** The first word that is neither an option nor the value of a common option, and the other words. */
function firstWord(argv: readonly string[]): Words | null {
  const { tokens } = parseArgs({
    args: [...argv],
    options: parserOptions(COMMON_OPTIONS),
    strict: false,
    tokens: true,
    allowPositionals: true,
  });
  const token = tokens.find(({ kind }) => kind === 'positional');
  if (token === undefined) return null;
  return { name: argv[token.index] as string, rest: argv.filter((_, index) => index !== token.index) };
}

function unknownCommand(name: string, candidates: readonly string[]): UsageError {
  const names = candidates.flatMap((candidate) => [candidate, candidate.split(' ')[0] as string]);
  return new UsageError(`There is no command "${name}"${suggestion(name, names)}. See "millrace help".`);
}

function missingWord(first: string, family: readonly string[]): UsageError {
  const words = family.map((name) => name.slice(first.length + 1));
  return new UsageError(`"millrace ${first}" needs one more word: ${words.join(', ')}. See "millrace help ${first}".`, first);
}

function parseOptions(args: readonly string[], options: Options, command: Command) {
  const config = { args: joinValues(args, options), options: parserOptions(options), allowPositionals: true };
  try {
    const { values, positionals } = parseArgs({ ...config, strict: true });
    return { values: values as CommonValues & Record<string, unknown>, positionals };
  } catch (error) {
    throw explain(error, { config, options, command });
  }
}

/**
 * Writes `--name value` as `--name=value` if the value begins with a dash, as a cursor may. The parser would refuse it. A word that names an
 * option of the command is never taken as a value, because the value was probably forgotten. The parser reports that.
 */
function joinValues(args: readonly string[], options: Options): string[] {
  const joined: string[] = [];
  for (let index = 0; index < args.length; index++) {
    const word = args[index] as string;
    if (word === '--') return [...joined, ...args.slice(index)];
    const next = args[index + 1];
    if (next === undefined || !takesValue(word, options)) joined.push(word);
    else {
      joined.push(...(next.startsWith('-') && !namesOption(next, options) ? [`${word}=${next}`] : [word, next]));
      index++;
    }
  }
  return joined;
}

const takesValue = (word: string, options: Options): boolean => word.startsWith('--') && lookUp(options, word.slice(2))?.type === 'string';

const namesOption = (word: string, options: Options): boolean =>
  word === '--' ||
  Object.entries(options).some(
    ([name, { short }]) => word === `--${name}` || word.startsWith(`--${name}=`) || (short !== undefined && word === `-${short}`),
  );

type Refused = {
  config: { args: string[]; options: ReturnType<typeof parserOptions> };
  options: Options;
  command: Command;
};

function explain(error: unknown, { config, options, command }: Refused): UsageError {
  const { tokens } = parseArgs({ ...config, allowPositionals: true, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind !== 'option' || Object.hasOwn(options, token.name)) continue;
    const names = Object.keys(options).map((name) => `--${name}`);
    const hint = suggestion(token.rawName, names);
    return new UsageError(`"millrace ${command.name}" has no option ${token.rawName}${hint}.`, command.name);
  }
  const [sentence] = (error instanceof Error ? error.message : String(error)).split(/\.\s|\n/);
  return new UsageError(`${sentence?.replace(/\.$/, '')}.`, command.name);
}

function checkCount(count: number, { name, takes, minArgs, maxArgs }: Command): void {
  const usage = `Usage: millrace ${name} ${takes}`.trimEnd();
  if (count < minArgs) throw new UsageError(`"millrace ${name}" needs ${takes}. ${usage}`, name);
  if (count > maxArgs) throw new UsageError(`"millrace ${name}" got too many arguments. ${usage}`, name);
}

function parserOptions(options: Options) {
  return Object.fromEntries(
    Object.entries(options).map(([name, { type, short, multiple = false }]) => [
      name,
      short === undefined ? { type, multiple } : { type, multiple, short },
    ]),
  );
}
