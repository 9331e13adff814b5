import { type Command, EXIT, type Invocation } from './command.ts';
import { loadCommands } from './commands.ts';
import { commandHelp, overview } from './help-text.ts';
import { Output } from './output.ts';
import { type Parsed, parse, peekCommon } from './parse.ts';
import { endSoon } from './stop-signals.ts';
import { UsageError } from './usage-error.ts';

/** Runs one command line and returns its exit code. */
export async function main(argv: string[]): Promise<number> {
  const { json = false, verbose = false, help = false } = peekCommon(argv);
  const out = new Output({ json, verbose });
  process.stdout.on('error', endAtBrokenPipe);
  try {
    const parsed = await parse(argv[0] === '--version' ? ['version', ...argv.slice(1)] : argv);
    if (parsed === null) return await showOverview(out, help);
    return await run(parsed, out);
  } catch (error) {
    out.error(error);
    return error instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}

async function run({ command, values, args }: Parsed, out: Output): Promise<number> {
  if (values.help === true) {
    out.answer({ help: commandHelp(command) }, () => commandHelp(command).split('\n'));
    return EXIT.ok;
  }
  const invocation = { values, args, out } as Invocation<Command['options']>;
  if (command.isLongRunning) {
    outliveReaders();
    return command.run(invocation).finally(endSoon);
  }
  process.once('SIGINT', () => process.exit(EXIT.interrupted));
  return command.run(invocation);
}

/** Prints to stdout if --help was given; otherwise to stderr, and fails. */
async function showOverview(out: Output, wanted: boolean): Promise<number> {
  const help = overview(await loadCommands());
  if (!wanted) {
    out.note([...help.split('\n'), '']);
    throw new UsageError('No command given. See "millrace help".');
  }
  out.answer({ help }, () => help.split('\n'));
  return EXIT.ok;
}

/** `millrace jobs list | head` must end without an error when head does. */
function endAtBrokenPipe(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  throw error;
}

/**
 * Ctrl-C in `millrace up | tee log` ends tee too, and a closed terminal takes no more lines. The command must still stop what it
 * started.
 */
function outliveReaders(): void {
  process.stdout.off('error', endAtBrokenPipe);
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}
