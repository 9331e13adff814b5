import { QUEUE_SETTINGS, type Section, type Setting, settingsOf as settingsIn } from '../../config/settings.ts';
import { showValue } from '../../config/values.ts';
import { lookUp } from '../../core/dictionary.ts';
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
    const { kind, secret } = settingOf(name);
    const shown = secret !== undefined && typeof value === 'string' ? masked(value, secret) : value;
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

const masked = (value: string, secret: 'whole' | 'password'): string => (secret === 'whole' ? '***' : maskPassword(value));

function settingOf(name: string): Setting {
  const [section, key] = [name.slice(0, name.indexOf('.')), name.slice(name.lastIndexOf('.') + 1)];
  const settings: Readonly<Record<string, Setting>> = section === 'queues' ? QUEUE_SETTINGS : settingsIn(section as Section);
  return lookUp(settings, key) as Setting;
}
