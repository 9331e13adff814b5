import { COMMON_OPTIONS, type Command, type Options } from './command.ts';

export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => command.name.length));
  return [
    'Millrace: durable job execution on PostgreSQL.',
    '',
    'Usage: millrace COMMAND [OPTIONS]',
    '',
    ...commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
    '',
    'Options of every command:',
    ...optionLines(COMMON_OPTIONS),
    '',
    'Exit codes: 0 done, 1 failed or not found, 2 wrong usage, 130 interrupted.',
    'More about one command: millrace help COMMAND',
  ].join('\n');
}

export function commandHelp({ name, takes, summary, details, options, examples }: Command): string {
  const own = Object.keys(options).length > 0 ? ['', 'Options:', ...optionLines(options)] : [];
  return [
    `Usage: millrace ${name}${takes === '' ? '' : ` ${takes}`} [OPTIONS]`,
    '',
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    ...(details === undefined ? [] : ['', details]),
    ...own,
    '',
    'Common options:',
    ...optionLines(COMMON_OPTIONS),
    '',
    'Examples:',
    ...examples.map((example) => `  ${example}`),
  ].join('\n');
}

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, { value, short, help }]) => ({
    label: `${short ? `-${short}, ` : ''}--${name}${value ? ` ${value}` : ''}`,
    help,
  }));
  const width = Math.max(...rows.map(({ label }) => label.length));
  return rows.map(({ label, help }) => `  ${label.padEnd(width)}  ${help}`);
}
