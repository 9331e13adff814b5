import { styleText } from 'node:util';
import { type AppError, ERRORS, isAppError } from '../core/errors.ts';
import { isUnavailable } from '../ledger/driver/statement.ts';
import { UsageError } from './usage-error.ts';

type Style = 'red' | 'green';

export type OutputOptions = { json: boolean; verbose: boolean };

/** All output of the program. Results go to stdout, everything else to stderr. */
export class Output {
  readonly json: boolean;
  readonly verbose: boolean;

  constructor({ json, verbose }: OutputOptions) {
    this.json = json;
    this.verbose = verbose;
  }

  get isTty(): boolean {
    return process.stderr.isTTY === true && !this.json;
  }

  /** Prints a result: as JSON with --json, otherwise as lines. */
  answer(data: unknown, lines: () => readonly string[]): void {
    if (this.json) this.line(toJson(data));
    else for (const line of lines()) this.line(line);
  }

  line(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /** Prints an event of a long-running command: a JSON object with --json, otherwise text. */
  event(data: { event: string } & Record<string, unknown>, text: string): void {
    this.line(this.json ? toJson(data) : text);
  }

  note(text: string): void {
    if (!this.json) process.stderr.write(`${text}\n`);
  }

  /** Replaces the previous progress text. Prints only on a terminal. */
  progress(text: string): void {
    if (this.isTty) process.stderr.write(`\r\u001b[2K${text}`);
  }

  paint(style: Style, text: string): string {
    return hasColour(process.stdout) ? styleText(style, text, { validateStream: false }) : text;
  }

  error(error: unknown): void {
    const facts = describeError(error);
    if (this.json) process.stderr.write(`${toJson({ error: facts })}\n`);
    else process.stderr.write(`${errorLines(facts).join('\n')}\n`);
    if (this.verbose && error instanceof Error) process.stderr.write(`${stackOf(error)}\n`);
  }
}

const hasColour = (stream: NodeJS.WriteStream): boolean => stream.isTTY === true && !process.env.NO_COLOR;

/** Writes bytes as `{"$bytes": base64}`, the form that a submission uses. */
export function toJson(data: unknown): string {
  return JSON.stringify(data, function (this: Record<string, unknown>, key, value) {
    const raw = this[key];
    return raw instanceof Uint8Array ? { $bytes: Buffer.from(raw).toString('base64') } : value;
  });
}

type ErrorFacts = Pick<AppError, 'message' | 'details'> & { code: string; remedy: string | null };

function describeError(error: unknown): ErrorFacts {
  if (error instanceof UsageError) {
    const remedy = error.command === null ? null : `See "millrace help ${error.command}".`;
    return { code: 'USAGE', message: error.message, remedy, details: [] };
  }
  if (isAppError(error)) return { code: error.code, message: error.message, remedy: error.remedy, details: error.details };
  const message = error instanceof Error ? error.message || error.name : String(error);
  const code = isUnavailable(error) ? 'DATABASE_UNREACHABLE' : 'INTERNAL_ERROR';
  return { code, message, remedy: ERRORS[code].remedy, details: [] };
}

function errorLines({ message, remedy, details }: ErrorFacts): string[] {
  const colour = hasColour(process.stderr);
  const label = colour ? styleText('red', 'error:', { validateStream: false }) : 'error:';
  const lines = [`${label} ${sentence(message)}`];
  for (const issue of details) if (!message.includes(issue.message)) lines.push(`  ${issue.message}`);
  if (remedy !== null && !hasAdvice(message, remedy)) lines.push(remedy);
  return lines;
}

/** A message of several sentences already contains advice. */
const hasAdvice = (message: string, remedy: string): boolean => message.includes(remedy) || /[.!?]["')]?\s+[A-Z]/.test(message);

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}
