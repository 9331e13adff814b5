import { suggestion } from '../../core/nearest-name.ts';
import { type Command, defineCommand, EXIT } from '../command.ts';
import { commandHelp, overview } from '../help-text.ts';
import { UsageError } from '../usage-error.ts';

/** The table of commands contains this command, so it is passed as a function. */
export const help = (loadCommands: () => Promise<readonly Command[]>): Command =>
  defineCommand({
    name: 'help',
    summary: 'show all commands, or the help of one',
    takes: '[COMMAND]',
    maxArgs: 2,
    examples: ['millrace help', 'millrace help work', 'millrace help jobs list'],
    async run({ args, out }) {
      const text = textFor(args.join(' '), await loadCommands());
      out.answer({ help: text }, () => text.split('\n'));
      return EXIT.ok;
    },
  });

function textFor(name: string, commands: readonly Command[]): string {
  if (name === '') return overview(commands);
  const meant = commands.filter((command) => command.name === name || command.name.startsWith(`${name} `));
  if (meant.length > 0) return meant.map(commandHelp).join('\n\n\n');
  const names = commands.map((command) => command.name);
  throw new UsageError(`There is no command "${name}"${suggestion(name, names)}. See "millrace help".`);
}
