export type FaultCode =
  | 'DNS'
  | 'CONNECT'
  | 'TLS'
  | 'TIMEOUT'
  | 'RESET'
  | 'PROTOCOL'
  | 'TOO_LARGE'
  | 'TOO_MANY_REDIRECTS'
  | 'PROXY'
  | 'ABORTED';

/** What stopped an exchange. It travels as an exception inside this room and leaves it as a value. */
export class EgressFault extends Error {
  override readonly name = 'EgressFault';
  readonly code: FaultCode;

  constructor(code: FaultCode, message: string) {
    super(message);
    this.code = code;
  }
}

const CUT_OFF: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET', 'ETIMEDOUT']);

/** `code` is what an error of this phase means unless it says so itself. */
export function faultFrom(error: unknown, code: FaultCode): EgressFault {
  if (error instanceof EgressFault) return error;
  return new EgressFault(code, error instanceof Error ? error.message : String(error));
}

/** Errors while a request is under way: the peer went away, or it does not speak HTTP. */
export function exchangeFault(error: unknown): EgressFault {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return faultFrom(error, CUT_OFF.has(code) ? 'RESET' : 'PROTOCOL');
}
