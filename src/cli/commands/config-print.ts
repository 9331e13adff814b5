import { settingNamed } from '../../config/settings.ts';
import { showValue, type Value } from '../../config/values.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { maskPassword, settingsOf } from '../connection.ts';
import { textTable } from '../text-table.ts';

export const configPrint = defineCommand({
  name: 'config print',
  summary: 'show every setting and its source',
  details: 'Later sources take precedence: default, file, environment, command line. Secrets are masked.',
  examples: ['millrace config print', 'millrace config print --config production.toml --json'],
  run,
});

async function run({ values, out }: Invocation): Promise<number> {
  const { entries, file } = settingsOf(values);
  const settings = [...entries].map(([name, { value, source }]) => {
    const { kind, secret } = settingNamed(name);
    const shown = secret === undefined ? value : masked(value, secret);
    return { name, value: shown, shown: showValue(shown, kind), source };
  });
  out.answer({ file, settings: settings.map(({ shown, ...facts }) => ({ ...facts, written: shown })) }, () => [
    file === null ? 'No configuration file.' : `Configuration file ${file}`,
    '',
    ...textTable(
      ['setting', 'value', 'from'],
      settings.map(({ name, shown, source }) => [name, shown, source]),
    ),
  ]);
  return EXIT.ok;
}

function masked(value: Value | null, secret: 'whole' | 'password'): Value | null {
  if (Array.isArray(value)) return value.map(maskPassword);
  if (typeof value !== 'string') return value;
  return secret === 'whole' ? '***' : maskPassword(value);
}
