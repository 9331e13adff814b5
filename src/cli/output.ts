import { randomUUID } from 'node:crypto';
import { styleText } from 'node:util';
import { type AppError, ERRORS, isAppError } from '../core/errors.ts';
import { isUnavailable } from '../ledger/driver/statement.ts';
import { UsageError } from './usage-error.ts';
import { visibleBlock, visibleJson, visibleLine } from './visible-text.ts';

type Style = 'red' | 'green';

export type OutputOptions = { json: boolean; verbose: boolean };

/** One line, or several lines of the program itself. A line break inside of a line came from outside and is escaped. */
type Lines = string | readonly string[];

/**
 * All output of the program, with every character visible. Results go to stdout, everything else to stderr.
 */
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

  /** Whether a person sees results and log lines on one terminal. */
  get showsJobs(): boolean {
    return process.stdout.isTTY === true && this.isTty;
  }

  /** Prints a result: as JSON with --json, otherwise as lines. */
  answer(data: unknown, lines: () => readonly string[]): void {
    if (this.json) process.stdout.write(`${toJson(data)}\n`);
    else print(process.stdout, lines());
  }

  /** Prints an event of a long-running command: a JSON object with --json, otherwise text. */
  event(data: { event: string } & Record<string, unknown>, text: Lines): void {
    this.answer(data, () => [text].flat());
  }

  note(text: Lines): void {
    if (!this.json) print(process.stderr, text);
  }

  /** Replaces the previous progress text, after moving the cursor. Prints only on a terminal. */
  progress(text: Lines, move = ''): void {
    if (this.isTty) process.stderr.write(`\r\u001b[2K${move}${[text].flat().map(visibleLine).join('\n')}`);
  }

  paint(style: Style, text: string): string {
    return hasColour(process.stdout) ? styleText(style, text, { validateStream: false }).replaceAll(ESCAPE, OUR_ESCAPE) : text;
  }

  error(error: unknown): void {
    const facts = describeError(error);
    if (this.json) process.stderr.write(`${toJson({ error: facts })}\n`);
    else print(process.stderr, errorLines(facts));
    if (this.verbose && error instanceof Error) print(process.stderr, visibleBlock(stackOf(error)));
  }
}

const ESCAPE = '\u001b';
/** Stands for the escape character of our own colours. A value from outside cannot contain it. */
const OUR_ESCAPE = `<${randomUUID()}>`;

function print(stream: NodeJS.WriteStream, lines: Lines): void {
  if (lines.length === 0 && typeof lines !== 'string') return;
  const shown = [lines].flat().map((line) => visibleLine(line).replaceAll(OUR_ESCAPE, ESCAPE));
  stream.write(`${shown.join('\n')}\n`);
}

const hasColour = (stream: NodeJS.WriteStream): boolean => stream.isTTY === true && !process.env.NO_COLOR;

/** Writes bytes as `{"$bytes": base64}`, the form that a submission uses. */
export function toJson(data: unknown): string {
  const json = JSON.stringify(data, function (this: Record<string, unknown>, key, value) {
    const raw = this[key];
    return raw instanceof Uint8Array ? { $bytes: Buffer.from(raw).toString('base64') } : value;
  });
  return visibleJson(json);
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
  const label = colour ? styleText('red', 'error:', { validateStream: false }).replaceAll(ESCAPE, OUR_ESCAPE) : 'error:';
  const lines = visibleBlock(`${label} ${sentence(message)}`);
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
