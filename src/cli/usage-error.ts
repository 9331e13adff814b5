/** The command line is invalid. The command did nothing. */
export class UsageError extends Error {
  readonly command: string | null;

  constructor(message: string, command: string | null = null) {
    super(message);
    this.name = 'UsageError';
    this.command = command;
  }
}
