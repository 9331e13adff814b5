import { randomBytes } from 'node:crypto';
import { chmod, chown, link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../config/load-config.ts';
import { AppError } from '../core/errors.ts';

export const operatorTokenFile = (home: string): string => join(home, 'operator-token');

/** The operator token of this server; null if everyone is an operator. */
export type OperatorToken = {
  readonly token: string | null;
  /** The file that contains it; null if the configuration gave it. */
  readonly file: string | null;
  /** The token was made by this start, so it should be shown once. */
  readonly isNew: boolean;
};

/** Reads the token of the configuration or of the data folder. The first start makes one, readable only by its owner. */
export async function openOperatorToken({ operators, database }: Pick<Config, 'operators' | 'database'>): Promise<OperatorToken> {
  if (operators.auth === 'none') return { token: null, file: null, isNew: false };
  if (operators.token !== null) return { token: operators.token, file: null, isNew: false };
  const file = operatorTokenFile(database.home);
  try {
    const made = await makeToken(database.home, file);
    if (made !== null) return { token: made, file, isNew: true };
    const token = (await readFile(file, 'utf8')).trim();
    if (token.length < 16) throw new Error(`the file ${file} contains no token`);
    await chmod(file, 0o600).catch(() => {});
    return { token, file, isNew: false };
  } catch (cause) {
    const message = `The operator token in ${file} cannot be read or written. Check the permissions of the folder, or set MILLRACE_OPERATOR_TOKEN.`;
    throw new AppError('HOME_UNUSABLE', { message, cause });
  }
}

/** Of several processes that start together, one makes the token: a link to a finished file appears once. Returns null for the others. */
async function makeToken(home: string, file: string): Promise<string | null> {
  const token = `mrop_${randomBytes(32).toString('base64url')}`;
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  await mkdir(home, { recursive: true });
  try {
    await writeFile(draft, `${token}\n`, { mode: 0o600, flag: 'wx' });
    const owner = await stat(home);
    if (process.getuid?.() === 0 && owner.uid !== 0) await chown(draft, owner.uid, owner.gid);
    await link(draft, file);
    return token;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return null;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}
